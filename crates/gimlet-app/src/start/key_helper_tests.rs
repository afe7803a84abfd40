use gimlet_exec::{CustodianProgram, ExecConfig};

use super::*;

struct HelperFixture {
    dir: tempfile::TempDir,
    helper: KeyHelper,
    redactor: Redactor,
}

impl HelperFixture {
    /// Creates a helper that appends a line to `runs` each time before it runs `command`.
    fn new(command: &str) -> Self {
        Self::with_env(command, Env::default())
    }

    fn with_env(command: &str, env: Env) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let redactor = Redactor::default();
        let env = env.with("PATH", "/usr/local/bin:/usr/bin:/bin");
        let helper = KeyHelper::new(dir.path().to_owned(), env, redactor.clone());
        helper.set_command(Some(&format!("echo run >>runs; {command}")), None);
        helper.set_exec(Exec::new(ExecConfig {
            custodian: CustodianProgram::Fork,
            session_marker: "test".into(),
            runtime_dir: None,
        }));
        Self { dir, helper, redactor }
    }

    fn count_runs(&self) -> usize {
        std::fs::read_to_string(self.dir.path().join("runs")).unwrap_or_default().lines().count()
    }

    async fn fetch_key(&self, refused: Option<&str>) -> Result<String, String> {
        let refused = refused.map(Secret::new);
        let key = self.helper.fetch_key(refused.as_ref()).await;
        key.map(|key| key.expose().to_owned()).map_err(|error| error.message)
    }
}

#[tokio::test]
async fn the_helper_runs_when_a_key_is_needed_and_its_key_is_kept_and_masked() {
    let stage = HelperFixture::new("echo; echo '  sk-from-helper  '; echo");
    assert_eq!(stage.count_runs(), 0);
    for _ in 0..3 {
        assert_eq!(stage.fetch_key(None).await.unwrap(), "sk-from-helper");
    }
    assert_eq!(stage.count_runs(), 1);
    assert_eq!(stage.redactor.mask("got sk-from-helper"), "got ***");
    assert!(!format!("{:?}", stage.helper).contains("sk-from-helper"));
}

#[tokio::test]
async fn a_command_of_a_projects_file_does_not_get_the_credentials_of_the_model() {
    let env = Env::default().with("ANTHROPIC_API_KEY", "sk-own").with("OTHER_TOKEN", "t");
    let command = "echo key-${ANTHROPIC_API_KEY-none}-${OTHER_TOKEN-none}";
    let stage = HelperFixture::with_env(command, env);
    assert_eq!(stage.fetch_key(None).await.unwrap(), "key-sk-own-t");
    stage.helper.set_command(Some(&format!("true; {command}")), Some(Arc::new(|| None)));
    assert_eq!(stage.fetch_key(None).await.unwrap(), "key-none-t");
}

#[tokio::test]
async fn concurrent_requests_share_one_run_also_when_it_fails_or_the_first_is_cancelled() {
    let stage = HelperFixture::new("sleep 0.1; echo key-$(wc -l <runs)");
    let (one, two) = tokio::join!(stage.fetch_key(None), stage.fetch_key(None));
    assert_eq!((one.unwrap().as_str(), two.unwrap().as_str(), stage.count_runs()), ("key-1", "key-1", 1));
    // Two requests were refused with one key; the second finds the fresh one.
    let (one, two) = tokio::join!(stage.fetch_key(Some("key-1")), stage.fetch_key(Some("key-1")));
    assert_eq!((one.unwrap().as_str(), two.unwrap().as_str(), stage.count_runs()), ("key-2", "key-2", 2));
    assert_eq!((stage.fetch_key(Some("key-1")).await.unwrap().as_str(), stage.count_runs()), ("key-2", 2));

    let failing = HelperFixture::new("sleep 0.1; echo locked >&2; exit 4");
    let (one, two) = tokio::join!(failing.fetch_key(None), failing.fetch_key(None));
    assert_eq!(one, two);
    assert_eq!(one.unwrap_err(), "the command in apiKeyHelper gave no key: it exited with 4: locked");
    assert_eq!(failing.count_runs(), 1);
    failing.fetch_key(None).await.unwrap_err();
    assert_eq!(failing.count_runs(), 2, "a failure is not kept");

    let stage = HelperFixture::new("test $(wc -l <runs) = 2 || sleep 60; echo key-two");
    let impatient = async {
        tokio::select! {
            _ = stage.fetch_key(None) => unreachable!("the first run takes a minute"),
            () = async { while stage.count_runs() == 0 { tokio::time::sleep(Duration::from_millis(5)).await } } => {}
        }
    };
    let ((), key) = tokio::join!(impatient, stage.fetch_key(None));
    assert_eq!((key.unwrap().as_str(), stage.count_runs()), ("key-two", 2));
}

#[tokio::test]
async fn a_key_is_fetched_again_when_its_time_is_up() {
    let stage = HelperFixture::with_env(
        "echo key-$(wc -l <runs)",
        Env::default().with("CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "0"),
    );
    assert_eq!(stage.fetch_key(None).await.unwrap(), "key-1");
    assert_eq!(stage.fetch_key(None).await.unwrap(), "key-2");
    let stage = HelperFixture::new("");
    assert_eq!(stage.helper.ttl, Duration::from_secs(300));
}

#[tokio::test]
async fn another_command_in_settings_takes_over_at_once_and_none_is_told() {
    let stage = HelperFixture::new("echo key-old");
    assert_eq!(stage.fetch_key(None).await.unwrap(), "key-old");
    stage.helper.set_command(Some("echo key-new"), None);
    assert_eq!(stage.fetch_key(None).await.unwrap(), "key-new");
    stage.helper.set_command(None, None);
    assert!(stage.fetch_key(None).await.unwrap_err().contains("apiKeyHelper was taken away"));
}

#[tokio::test]
async fn a_helper_that_takes_too_long_is_killed_and_the_error_shows_no_known_key() {
    let slow = HelperFixture::with_env("sleep 60", Env::default().with("GIMLET_API_KEY_HELPER_TIMEOUT_MS", "200"));
    let error = slow.helper.fetch_key(None).await.unwrap_err();
    assert!(error.message.ends_with("it did not end within 0.2 s"), "{}", error.message);
    assert!(error.hint.contains("GIMLET_API_KEY_HELPER_TIMEOUT_MS"));
    let stage =
        HelperFixture::new("test $(wc -l <runs) = 1 && echo sk-canary || { echo sk-canary is old >&2; exit 1; }");
    stage.fetch_key(None).await.unwrap();
    let error = stage.fetch_key(Some("sk-canary")).await.unwrap_err();
    assert!(error.ends_with("it exited with 1: *** is old"), "{error}");
}

#[test]
fn only_a_single_word_is_a_key_and_no_error_repeats_what_was_printed() {
    for good in ["k", " \r\n sk-1/+=.~ \n\n", "ey.J0"] {
        assert_eq!(parse_key(good.as_bytes()).unwrap(), good.trim());
    }
    let table: [(&[u8], &str); 7] = [
        (b"", "nothing"),
        (b" \n\t\r\n", "nothing"),
        (b"canary\ncanary\n", "more than one line"),
        (b"error: canary not found", "more than one word"),
        (b"canary\0", "characters"),
        ("canary-\u{e9}".as_bytes(), "characters"),
        (b"canary\xff\xfe", "characters"),
    ];
    for (printed, words) in table {
        let error = parse_key(printed).unwrap_err();
        assert!(error.message.contains(words), "{error:?}");
        assert!(!format!("{error:?}").contains("canary"));
    }
}
