//! How long a decision takes: small commands are the rule, hostile ones the limit.

#[path = "common/shapes.rs"]
mod shapes;

use shapes::{DecisionQuestion, FILLED, LENGTHS, NESTED, OPENERS, PARTS};

fn main() {
    divan::main();
}

fn bench(bencher: divan::Bencher<'_, '_>, text: String) {
    let question = DecisionQuestion::for_command(text);
    bencher.bench_local(|| question.decide());
}

#[divan::bench]
fn one_small_command(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, "npm run test -- --watch=false".to_owned());
}

#[divan::bench]
fn a_pipeline(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, "grep -rn 'parseConfig' --include='*.ts' src 2>/dev/null | head -50".to_owned());
}

#[divan::bench(args = [1_000, 10_000])]
fn a_list_of_this_length(bencher: divan::Bencher<'_, '_>, length: usize) {
    bench(bencher, "echo \"step one\" && ".repeat(length / 19) + "echo done");
}

#[divan::bench(args = OPENERS)]
fn ten_thousand_openers(bencher: divan::Bencher<'_, '_>, opener: &str) {
    bench(bencher, opener.repeat(10_000));
}

/// Sound texts of a length, each of one kind of part; the limit is 2 ms for 1,000 bytes and 50 ms for 10,000.
#[divan::bench(args = LENGTHS.iter().flat_map(|length| PARTS.iter().map(|part| (*length, *part))))]
fn many_parts(bencher: divan::Bencher<'_, '_>, (length, part): (usize, &str)) {
    bench(bencher, part.repeat(length / part.len()));
}

/// Constructs inside constructs, as deep as the text is long.
#[divan::bench(args = LENGTHS.iter().flat_map(|length| NESTED.iter().map(|(open, close)| (*length, *open, *close))))]
fn nested(bencher: divan::Bencher<'_, '_>, (length, open, close): (usize, &str, &str)) {
    bench(bencher, shapes::nested_text(length, open, close));
}

/// One part again and again between two others.
#[divan::bench(args = LENGTHS.iter().flat_map(|length| FILLED.iter().map(|shape| (*length, *shape))))]
fn filled(bencher: divan::Bencher<'_, '_>, (length, shape): (usize, (&str, &str, &str))) {
    bench(bencher, shapes::filled_text(length, shape));
}
