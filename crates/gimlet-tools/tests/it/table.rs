//! Facts about single tools that are easy to forget when one is added or changed.

#[test]
fn inputs_that_can_be_long_are_streamed_as_they_are_written() {
    let eager: Vec<&str> =
        gimlet_tools::builtin().into_iter().filter(|tool| tool.eager_input()).map(|tool| tool.name()).collect();
    assert_eq!(eager, ["Bash", "Write", "Edit"]);
}
