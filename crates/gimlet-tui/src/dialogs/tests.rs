use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyModifiers};
use gimlet_proto::{
    AgentPath, Approval, DiffHunk, ElicitationAsk, ElicitationRequest, PermissionAsk, QuestionAnswers, QuestionChoice,
    SuggestedChange, ToolUseId, TrustItem, TrustQuestion, UserQuestion, UserReply, View,
};
use serde_json::json;

use super::*;
use crate::glyphs::GlyphSet;
use crate::key_bindings::KeyStrokes;
use crate::theme::{ColorDepth, ColorTheme, ScreenBackground};

const THEME: ColorTheme = ColorTheme { background: ScreenBackground::Dark, depth: ColorDepth::None };

fn raw(value: &serde_json::Value) -> Arc<RawValue> {
    Arc::from(serde_json::value::to_raw_value(value).unwrap())
}

fn permission(preview: View, input: &serde_json::Value) -> PermissionAsk {
    PermissionAsk {
        tool: "Bash".to_owned(),
        server: None,
        call: ToolUseId::new("toolu_1"),
        input: raw(input),
        label: "Bash".to_owned(),
        summary: String::new(),
        reason: "No rule allows `rm -rf build`. `npm run release` is allowed by Bash(npm run:*).".to_owned(),
        reason_kind: "mode",
        path: None,
        suggestions: Vec::new(),
        preview,
        destructive: false,
    }
}

fn command_ask(command: &str) -> PermissionAsk {
    let preview = View::Terminal { command: command.to_owned(), output: String::new(), exit_code: None };
    let mut ask = permission(preview, &json!({"command": command, "timeout": 5}));
    let rule = json!({"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "npm run release *"}],
        "behavior": "allow", "destination": "localSettings"});
    ask.suggestions = vec![SuggestedChange { covers: "Bash(npm run release *)".to_owned(), update: raw(&rule) }];
    ask
}

fn edit_ask() -> PermissionAsk {
    let hunk = DiffHunk {
        old_start: 117,
        old_lines: 2,
        new_start: 117,
        new_lines: 3,
        lines: vec![
            "     let mut depth = 0;".to_owned(),
            "-    while let Some(t) = it.next() {".to_owned(),
            "+    while let Some(t) = it.next_token() {".to_owned(),
            "+        depth += usize::from(t.opens());".to_owned(),
        ],
    };
    let preview = View::Diff { path: "src/parser.rs".to_owned(), hunks: vec![hunk] };
    let mut ask = permission(preview, &json!({"file_path": "src/parser.rs"}));
    ask.reason = "the mode asks before changes".to_owned();
    let mode = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
    ask.suggestions = vec![SuggestedChange { covers: "all edits in this folder".to_owned(), update: raw(&mode) }];
    ask
}

fn ask(body: AskBody) -> AskView {
    AskView { id: AskId(1), agent: AgentPath::default(), agent_id: None, agent_type: None, body }
}

fn dialog(body: AskBody) -> AskDialog {
    AskDialog::for_ask(&ask(body), &KeyBindings::default())
}

fn press(dialog: &mut AskDialog, keys: &str) -> DialogOutcome {
    let mut outcome = DialogOutcome::Ignored;
    let mut rest = keys;
    while let Some(first) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let event = match named {
            Some((name, after)) => {
                rest = after;
                let strokes = KeyStrokes::parse(name).expect(name);
                let stroke = strokes.as_slice()[0];
                KeyEvent::new(stroke.code(), stroke.modifiers())
            }
            None => {
                rest = &rest[first.len_utf8()..];
                KeyEvent::new(KeyCode::Char(first), KeyModifiers::NONE)
            }
        };
        outcome = dialog.handle_key(event);
    }
    outcome
}

fn answered(outcome: DialogOutcome) -> AskAnswer {
    match outcome {
        DialogOutcome::Answer { answer, .. } => answer,
        other => panic!("no answer: {other:?}"),
    }
}

/// Returns an answer in a short form.
fn short(answer: &AskAnswer) -> String {
    match answer {
        AskAnswer::Yes(Approval { input, changes }) => {
            let changes: Vec<&str> = changes.iter().map(|change| change.get()).collect();
            format!("yes {} {}", input.as_ref().map_or("", |input| input.get()), changes.join(" "))
        }
        AskAnswer::No { message, interrupt } => format!("no {message:?} {interrupt}"),
        AskAnswer::Replied(UserReply::Plan(plan)) => format!("plan {plan:?}"),
        AskAnswer::Replied(UserReply::Answers(QuestionAnswers { answers, .. })) => format!("{answers:?}"),
        AskAnswer::Elicited { action, content } => {
            format!("{action:?} {}", content.as_ref().map_or(String::new(), |content| json!(content).to_string()))
        }
        other => format!("{other:?}"),
    }
}

/// Presses keys in a new dialog and returns the answer in a short form.
fn reply(body: AskBody, keys: &str) -> String {
    short(&answered(press(&mut dialog(body), keys))).trim().to_owned()
}

fn screen(dialog: &mut AskDialog, width: usize, rows: usize) -> String {
    let context = RenderContext { theme: &THEME, glyphs: &GlyphSet::UNICODE, width };
    let view = dialog.render(rows, &context);
    assert!(view.lines.len() <= rows, "{} rows of {rows}", view.lines.len());
    let mut out = format!("{width} columns\n");
    for (index, line) in view.lines.iter().enumerate() {
        assert!(line_width(line) <= width, "{:?}", line.text());
        out.push_str(format!("|{}", line.text()).trim_end());
        out.push('\n');
        if let Some((row, column)) = view.cursor
            && row == index
        {
            out.push_str(&format!("|{}^\n", " ".repeat(column)));
        }
    }
    out
}

fn permission_body(ask: PermissionAsk) -> AskBody {
    AskBody::Permission(Box::new(ask))
}

#[test]
fn a_command_is_allowed_once_for_good_or_refused_with_words() {
    let body = || permission_body(command_ask("npm run release"));
    assert_eq!(reply(body(), "<enter>"), "yes");
    assert_eq!(reply(body(), "1"), "yes");
    let for_good = reply(body(), "<down><enter>");
    assert!(for_good.contains(r#""ruleContent":"npm run release *""#), "{for_good}");
    assert_eq!(reply(body(), "2"), for_good);
    assert_eq!(reply(body(), "<escape>"), r#"no "" false"#);
    assert_eq!(reply(body(), "3use pnpm 10<enter>"), r#"no "use pnpm 10" false"#);
    assert_eq!(reply(body(), "<up>use <ctrl+j>pnpm<left><backspace>N<enter>"), "no \"use \\npnNm\" false");
    assert_eq!(reply(body(), "<down><down><enter>"), r#"no "" false"#);
    assert_eq!(reply(body(), "<up>we<ctrl+a>e<enter>"), r#"no "ewe" false"#, "letters are no shortcuts there");
}

#[test]
fn letters_elsewhere_do_nothing() {
    let mut dialog = dialog(permission_body(command_ask("ls")));
    for key in ["y", "n", "x", "9", "0", "<space>", "q"] {
        assert!(matches!(press(&mut dialog, key), DialogOutcome::Ignored), "{key}");
    }
    assert_eq!(short(&answered(press(&mut dialog, "<enter>"))).trim(), "yes");
}

#[test]
fn the_command_can_be_changed_first() {
    let body = || permission_body(command_ask("rm -rf build"));
    let yes = reply(body(), "e<ctrl+w>out<enter><enter>");
    assert_eq!(yes, r#"yes {"command":"rm -rf out","timeout":5}"#);
    assert_eq!(reply(body(), "e<ctrl+w>out<escape><enter>"), "yes", "the change was dropped");
    assert_eq!(reply(body(), "ex<backspace><enter>2").trim(), reply(body(), "2"), "nothing was changed");
    let mut dialog = dialog(body());
    press(&mut dialog, "ex<enter>");
    assert!(!screen(&mut dialog, 80, 24).contains("always allow"), "a rule would not cover the change");
    assert_eq!(short(&answered(press(&mut dialog, "2no<enter>"))), r#"no "no" false"#);
}

#[test]
fn other_inputs_are_changed_in_the_users_editor() {
    let mut dialog = dialog(permission_body(edit_ask()));
    let DialogOutcome::EditExternally { text } = press(&mut dialog, "e") else { panic!("no editor") };
    assert_eq!(text, "{\n  \"file_path\": \"src/parser.rs\"\n}");
    dialog.replace_text("{ nonsense");
    assert!(screen(&mut dialog, 80, 24).contains("not valid JSON"));
    assert!(matches!(press(&mut dialog, "<enter>"), DialogOutcome::Changed), "it cannot run");
    dialog.replace_text("{\"file_path\": \"b.rs\"}\n");
    assert_eq!(short(&answered(press(&mut dialog, "<enter>"))).trim(), r#"yes {"file_path": "b.rs"}"#);
}

#[test]
fn shift_tab_at_an_edit_allows_edits_for_the_session() {
    let answer = reply(permission_body(edit_ask()), "<shift+tab>");
    assert_eq!(answer, r#"yes  {"type":"setMode","mode":"acceptEdits","destination":"session"}"#);
    assert!(matches!(press(&mut dialog(permission_body(command_ask("ls"))), "<shift+tab>"), DialogOutcome::Ignored));
}

#[test]
fn permission_screens() {
    let mut out = String::new();
    for (width, rows) in [(80, 24), (40, 15), (120, 40)] {
        let mut destructive = command_ask("rm -rf build && npm run release");
        destructive.destructive = true;
        out.push_str(&screen(&mut dialog(permission_body(destructive)), width, rows));
        out.push_str(&screen(&mut dialog(permission_body(edit_ask())), width, rows));
    }
    let mut refusing = dialog(permission_body(command_ask("npm run release")));
    press(&mut refusing, "3use pnpm, as the readme says, and do it in the folder of the package");
    out.push_str(&screen(&mut refusing, 80, 24));
    out.push_str(&screen(&mut refusing, 40, 15));
    let mut editing = dialog(permission_body(command_ask("npm run release")));
    press(&mut editing, "e --dry-run");
    out.push_str(&screen(&mut editing, 40, 15));
    insta::assert_snapshot!(out);
}

#[test]
fn who_asks_and_whose_tool_it_is_are_named() {
    let mut call = permission(
        View::Table { head: vec!["Argument".into(), "Value".into()], rows: vec![vec!["title".into(), "Bug".into()]] },
        &json!({"title": "Bug"}),
    );
    call.server = Some(gimlet_proto::ServerIdentity { name: "tracker".to_owned(), source: "project" });
    call.label = "create_issue".to_owned();
    let mut view = ask(permission_body(call));
    view.agent_type = Some("Explore".to_owned());
    view.agent_id = Some("a1b2".to_owned());
    insta::assert_snapshot!(screen(&mut AskDialog::for_ask(&view, &KeyBindings::default()), 80, 24));
}

#[test]
fn a_long_command_is_scrolled_to_and_the_question_says_so() {
    let command: Vec<String> = (1..=40).map(|line| format!("echo line {line}")).collect();
    let mut dialog = dialog(permission_body(command_ask(&command.join("\n"))));
    let first = screen(&mut dialog, 80, 15);
    assert!(first.contains("echo line 1\n") && first.contains("more rows, pgdn shows them"), "{first}");
    press(&mut dialog, "<pagedown>");
    let second = screen(&mut dialog, 80, 15);
    assert!(second.contains("above") && !second.contains("echo line 1\n"), "{second}");
    for _ in 0..20 {
        press(&mut dialog, "<pagedown>");
    }
    let last = screen(&mut dialog, 80, 15);
    assert!(last.contains("run:*).") && last.contains("rows above, pgup"), "{last}");
    press(&mut dialog, "<pageup>");
    assert_ne!(screen(&mut dialog, 80, 15), last);
    let whole = screen(&mut dialog, 80, 60);
    assert!(whole.contains("echo line 1\n") && whole.contains("echo line 40") && !whole.contains("pgdn"), "{whole}");
}

#[test]
fn hostile_text_cannot_leave_its_place() {
    let hostile = "a\u{1b}[2J\u{1b}]0;title\u{7}\u{202e}b\nc\u{200b}";
    let mut call = command_ask(hostile);
    call.reason = hostile.to_owned();
    call.label = hostile.to_owned();
    call.summary = hostile.to_owned();
    call.suggestions[0].covers = hostile.to_owned();
    let question = UserQuestion {
        question: hostile.to_owned(),
        header: hostile.to_owned(),
        options: vec![QuestionChoice {
            label: hostile.to_owned(),
            description: hostile.to_owned(),
            preview: Some(hostile.to_owned()),
        }],
        multi_select: false,
    };
    let elicitation = ElicitationAsk {
        server: hostile.to_owned(),
        message: hostile.to_owned(),
        request: ElicitationRequest::Url { url: format!("https://example.com/{hostile}") },
        raw: serde_json::Map::new(),
    };
    let trust = TrustQuestion {
        folder: PathBuf::from(hostile),
        items: vec![TrustItem {
            title: hostile.to_owned(),
            file: PathBuf::from(hostile),
            line: Some(3),
            shown: hostile.to_owned(),
            is_new: false,
        }],
    };
    let plan = AskBody::Plan { call: Box::new(call.clone()), plan: hostile.to_owned(), file: Some(hostile.into()) };
    for body in [
        permission_body(call.clone()),
        AskBody::Question { call: Box::new(call), questions: vec![question] },
        AskBody::Elicitation(Box::new(elicitation)),
        AskBody::Trust(trust),
        plan,
    ] {
        for width in [80, 20] {
            let text = screen(&mut dialog(body.clone()), width, 60);
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{200b}']), "{text:?}");
        }
    }
}

#[test]
fn trust_needs_a_deliberate_yes() {
    let question = TrustQuestion {
        folder: "/home/ada/src/parser".into(),
        items: vec![
            TrustItem {
                title: "hook on PreToolUse".to_owned(),
                file: ".claude/settings.json".into(),
                line: Some(12),
                shown: "curl https://example.com/setup.sh | sh".to_owned(),
                is_new: true,
            },
            TrustItem {
                title: "MCP server tracker".to_owned(),
                file: ".mcp.json".into(),
                line: None,
                shown: "npx tracker-server --all".to_owned(),
                is_new: false,
            },
        ],
    };
    let body = || AskBody::Trust(question.clone());
    assert_eq!(reply(body(), "1"), "yes");
    assert_eq!(reply(body(), "<up><enter>"), "yes");
    for keys in ["<enter>", "2", "<escape>"] {
        let outcome = press(&mut dialog(body()), keys);
        let DialogOutcome::Answer { answer: AskAnswer::No { .. }, effect: Some(DialogEffect::Leave) } = outcome else {
            panic!("{keys}: {outcome:?}")
        };
    }
    let mut shown = dialog(body());
    insta::assert_snapshot!(screen(&mut shown, 80, 24) + &screen(&mut shown, 40, 24));
}

fn choice(label: &str, description: &str) -> QuestionChoice {
    QuestionChoice { label: label.to_owned(), description: description.to_owned(), preview: None }
}

fn store_question() -> UserQuestion {
    UserQuestion {
        question: "Which store?".to_owned(),
        header: "Store".to_owned(),
        options: vec![choice("SQLite", "A single file"), choice("Postgres", "A server of its own")],
        multi_select: false,
    }
}

fn parts_question() -> UserQuestion {
    UserQuestion {
        question: "Which parts?".to_owned(),
        header: "Parts".to_owned(),
        options: vec![choice("Reader", ""), choice("Writer", "")],
        multi_select: true,
    }
}

fn questions(questions: &[UserQuestion]) -> AskBody {
    AskBody::Question {
        call: Box::new(permission(View::Text(String::new()), &json!({}))),
        questions: questions.to_vec(),
    }
}

#[test]
fn one_question_is_answered_at_once() {
    let body = || questions(&[store_question()]);
    assert_eq!(reply(body(), "<enter>"), r#"[("Which store?", ["SQLite"])]"#);
    assert_eq!(reply(body(), "2"), r#"[("Which store?", ["Postgres"])]"#);
    assert_eq!(reply(body(), "3flat files<enter>"), r#"[("Which store?", ["flat files"])]"#);
    assert_eq!(reply(body(), "<up>2"), r#"[("Which store?", ["Postgres"])]"#);
    assert_eq!(reply(body(), "<escape>"), r#"no "" false"#);
    assert!(matches!(press(&mut dialog(body()), "3<enter>"), DialogOutcome::Changed), "no words yet");
}

#[test]
fn several_are_marked_and_sent_together() {
    let body = || questions(&[parts_question()]);
    assert_eq!(reply(body(), "<space><down><space><enter>"), r#"[("Which parts?", ["Reader", "Writer"])]"#);
    assert_eq!(reply(body(), "121<enter>"), r#"[("Which parts?", ["Writer"])]"#);
    assert_eq!(reply(body(), "<space><space><down><enter>"), r#"[("Which parts?", ["Writer"])]"#);
    assert_eq!(reply(body(), "1<up>tests too<enter>"), r#"[("Which parts?", ["Reader", "tests too"])]"#);
}

#[test]
fn several_questions_are_tabs_with_a_last_look() {
    let body = || questions(&[store_question(), parts_question()]);
    let all = r#"[("Which store?", ["SQLite"]), ("Which parts?", ["Writer"])]"#;
    assert_eq!(reply(body(), "<enter>2<enter><enter>"), all);
    assert_eq!(reply(body(), "<tab>2<enter><enter><enter>"), all, "in another order");
    assert_eq!(reply(body(), "2<left>12<enter>1"), all, "an answer is changed");
    assert_eq!(reply(body(), "12<enter>2"), r#"no "" false"#, "cancelled at the last look");
    assert_eq!(
        reply(body(), "<right><right><enter>12<enter><enter>"),
        all,
        "submitting too early leads to what is open"
    );
    let mut out = String::new();
    let mut shown = dialog(body());
    out.push_str(&screen(&mut shown, 80, 24));
    press(&mut shown, "<enter><space>");
    out.push_str(&screen(&mut shown, 80, 24));
    press(&mut shown, "<enter>");
    out.push_str(&screen(&mut shown, 40, 15));
    insta::assert_snapshot!(out);
}

#[test]
fn a_choice_shows_what_it_would_look_like() {
    let mut question = store_question();
    question.options[1].preview = Some("```\nhost = db\nport = 5432\n```".to_owned());
    let mut shown = dialog(questions(&[question]));
    assert!(!screen(&mut shown, 80, 24).contains("5432"));
    press(&mut shown, "<down>");
    assert!(screen(&mut shown, 80, 24).contains("port = 5432"));
}

fn plan_body() -> AskBody {
    AskBody::Plan {
        call: Box::new(permission(View::Text(String::new()), &json!({}))),
        plan: "# Fix the parser\n\n1. Read `parser.rs`\n2. Write a test\n".to_owned(),
        file: Some("/home/ada/.claude/plans/calm-river.md".into()),
    }
}

#[test]
fn a_plan_is_approved_with_a_mode_or_sent_back() {
    let mode = |mode: &str| format!(r#"yes  {{"type":"setMode","mode":"{mode}","destination":"session"}}"#);
    assert_eq!(reply(plan_body(), "<enter>"), mode("acceptEdits"));
    assert_eq!(reply(plan_body(), "2"), mode("default"));
    assert_eq!(reply(plan_body(), "3tests first<enter>"), r#"no "tests first" false"#);
    assert_eq!(reply(plan_body(), "<escape>"), r#"no "" false"#);
    let mut shown = dialog(plan_body());
    assert!(matches!(press(&mut shown, "e"), DialogOutcome::EditExternally { text } if text.starts_with("# Fix")));
    shown.replace_text("# Other\n");
    insta::assert_snapshot!(screen(&mut dialog(plan_body()), 80, 24) + &screen(&mut shown, 40, 15));
    let DialogOutcome::Answer { answer, effect } = press(&mut shown, "<enter>") else { panic!("no answer") };
    assert_eq!(short(&answer), "plan \"# Other\\n\"");
    assert_eq!(effect, Some(DialogEffect::SetMode(PermissionMode::AcceptEdits)));
}

fn form_body() -> AskBody {
    let schema = json!({"type": "object", "required": ["name", "count", "level"], "properties": {
        "name": {"type": "string", "title": "Your name", "description": "As it is to be shown", "minLength": 2},
        "mail": {"type": "string", "format": "email"},
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "public": {"type": "boolean", "default": false},
        "level": {"type": "string", "enum": ["lo", "hi"], "enumNames": ["Low", "High"]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1}
    }});
    AskBody::Elicitation(Box::new(ElicitationAsk {
        server: "tracker".to_owned(),
        message: "Who reports this?".to_owned(),
        request: ElicitationRequest::Form { schema },
        raw: serde_json::Map::new(),
    }))
}

#[test]
fn a_servers_form_is_checked_and_sent_with_its_types() {
    let mut shown = dialog(form_body());
    press(&mut shown, "A<tab>not one<tab>0<tab><space><tab><tab><space><right><space><down><enter>");
    let checked = screen(&mut shown, 80, 30);
    press(&mut shown, "da<tab><ctrl+u>ada@example.com<tab><ctrl+u>7<tab><tab><right><right><tab><space><tab>");
    let sent = short(&answered(press(&mut shown, "<enter>")));
    assert_eq!(
        sent,
        r#"Accept {"name":"Ada","mail":"ada@example.com","count":7,"public":true,"level":"hi","tags":["a"]}"#
    );
    insta::assert_snapshot!(screen(&mut dialog(form_body()), 80, 24) + &checked + &screen(&mut shown, 40, 24));
    assert_eq!(reply(form_body(), "<escape>"), "Cancel");
    assert_eq!(reply(form_body(), "<up><enter>"), "Decline");
}

#[test]
fn a_servers_address_is_opened_only_after_a_deliberate_yes() {
    let body = || {
        AskBody::Elicitation(Box::new(ElicitationAsk {
            server: "tracker".to_owned(),
            message: "Sign in, please".to_owned(),
            request: ElicitationRequest::Url { url: "https://good.example@evil.example:8443/login?x=1".to_owned() },
            raw: serde_json::Map::new(),
        }))
    };
    let outcome = press(&mut dialog(body()), "1");
    let DialogOutcome::Answer { answer, effect: Some(DialogEffect::OpenUrl(url)) } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!((short(&answer).trim(), url.contains("evil.example")), ("Accept", true));
    assert_eq!(reply(body(), "<enter>"), "Decline");
    assert_eq!(reply(body(), "<escape>"), "Cancel");
    let text = screen(&mut dialog(body()), 80, 24);
    assert!(text.contains("on the host evil.example\n"), "{text}");
}

#[test]
fn questions_wait_in_their_order() {
    let bindings = KeyBindings::default();
    let mut queue = AskQueue::default();
    for id in 1..=3 {
        let mut view = ask(permission_body(command_ask("ls")));
        view.id = AskId(id);
        queue.push(view, &bindings);
    }
    let open = |queue: &mut AskQueue| queue.open().map(|dialog| dialog.id().0);
    assert_eq!((open(&mut queue), queue.waiting()), (Some(1), 2));
    queue.close(&AskId(2), &bindings);
    assert_eq!((open(&mut queue), queue.waiting()), (Some(1), 1));
    queue.close(&AskId(1), &bindings);
    assert_eq!(open(&mut queue), Some(3));
    queue.close(&AskId(3), &bindings);
    assert!(!queue.is_open());
}

#[test]
fn small_screens_keep_the_choices() {
    for body in [permission_body(edit_ask()), plan_body(), form_body(), questions(&[store_question()])] {
        for (width, rows) in [(20, 10), (40, 12), (10, 30)] {
            let mut shown = dialog(body.clone());
            let text = screen(&mut shown, width, rows);
            assert!(text.contains('❯'), "{width}×{rows}\n{text}");
        }
    }
}
