use std::sync::Arc;

use gimlet_proto::{Block, CachePlan, Env, Message, TruncatedCall};

use super::*;
use crate::catalogue::ResolvedModel;
use crate::provider_config::ProviderConfig;

fn config() -> ProviderConfig {
    ProviderConfig::from_env(&Env::default().with("ANTHROPIC_API_KEY", "k")).unwrap()
}

fn request(model: &str) -> ModelRequest {
    ModelRequest {
        model: model.into(),
        max_tokens: None,
        system: Arc::from([]),
        tools: Arc::from([]),
        tool_choice: ToolChoice::Auto { parallel: true },
        messages: vec![Arc::new(Message::user(vec![Block::text("hi")]))],
        few_images: None,
        cache: CachePlan { ttl: None, context: None, previous_len: None },
        thinking: ThinkingMode::ModelDefault,
        display: None,
        effort: None,
        want_wire_events: false,
    }
}

fn resolve(model: &str) -> ResolvedModel {
    config().directory.resolve(model).model
}

fn context<'a>(config: &'a ProviderConfig, model: &'a ResolvedModel, request: &'a ModelRequest) -> PlanContext<'a> {
    PlanContext { wishes: &config.wishes, endpoint: &config.main, model, request, once: None }
}

/// The steps of the format, by their parts.
impl ServerQuirks {
    fn plan(
        &self,
        config: &ProviderConfig,
        model: &ResolvedModel,
        request: &ModelRequest,
    ) -> (BodyPlan, Vec<&'static BetaFeature>) {
        plan_body(&context(config, model, request), self)
    }

    fn apply_downgrade(
        &mut self,
        downgrade: &Downgrade,
        config: &ProviderConfig,
        model: &ResolvedModel,
        request: &ModelRequest,
    ) -> bool {
        apply_downgrade(downgrade, &context(config, model, request), self)
    }

    fn output_limit(&self, config: &ProviderConfig, model: &ResolvedModel, sent: u64) -> TruncatedCall {
        context(config, model, &request("m")).output_limit(self, sent)
    }
}

fn plan(request: &ModelRequest) -> (BodyPlan, Vec<&'static BetaFeature>) {
    ServerQuirks::default().plan(&config(), &resolve(&request.model), request)
}

const ON: Option<ThinkingField> =
    Some(ThinkingField::Adaptive { display: Some(ThinkingDisplay::Summarized), drop_unbound: false });
const ON_VISIBLE: Option<ThinkingField> = Some(ThinkingField::Adaptive { display: None, drop_unbound: false });

#[test]
fn thinking_follows_the_models_row() {
    let [budget, usual] = [8000, 31_999].map(|budget| Some(ThinkingField::Enabled { budget }));
    let table = [
        ("claude-fable-5-1", ON, ON, ON),
        ("claude-opus-5-5", ON, ON, ON),
        ("claude-opus-5", ON, Some(ThinkingField::Disabled), ON),
        ("claude-sonnet-5-5", ON, Some(ThinkingField::BetweenTools), ON),
        ("claude-haiku-5-5", ON, Some(ThinkingField::Disabled), ON),
        ("claude-opus-4-8", ON, None, ON),
        ("claude-sonnet-4-6", ON_VISIBLE, None, ON_VISIBLE),
        ("claude-opus-4-5", usual, None, budget),
        ("claude-haiku-4-5", usual, None, budget),
        ("claude-unheard-of", ON, ON, ON),
        ("llama", None, None, None),
    ];
    for (model, default, off, asked) in table {
        let mut request = request(model);
        for (thinking, expected) in
            [(ThinkingMode::ModelDefault, default), (ThinkingMode::Off, off), (ThinkingMode::Budget(8000), asked)]
        {
            request.thinking = thinking;
            assert_eq!(plan(&request).0.thinking, expected, "{model} {thinking:?}");
        }
    }
}

#[test]
fn a_budget_leaves_room_for_an_answer_and_waits_for_a_turn_that_can_have_one() {
    let call = || Block::tool_use("toolu_a", "Read", serde_json::from_str("{}").unwrap());
    let thought = || Block::from_json(r#"{"type":"thinking","thinking":"hm","signature":"s"}"#).unwrap();
    let result = || Message::user(vec![Block::tool_result("toolu_a", &"x".into(), false)]);
    let mut request = request("claude-sonnet-4-5");
    request.max_tokens = Some(4_000);
    assert_eq!(plan(&request).0.thinking, Some(ThinkingField::Enabled { budget: 3_999 }));
    request.max_tokens = Some(1_024);
    assert_eq!(plan(&request).0.thinking, None);
    request.max_tokens = None;
    for (reply, thinks) in [(vec![call()], false), (vec![thought(), call()], true)] {
        let prompt = || Message::user(vec![Block::text("hi")]);
        let turn = [prompt(), Message::assistant(reply), result(), Message::assistant(vec![call()]), result()];
        request.messages = turn.into_iter().map(Arc::new).collect();
        assert_eq!(plan(&request).0.thinking.is_some(), thinks);
        request.messages.push(Arc::new(prompt()));
        assert!(plan(&request).0.thinking.is_some(), "a new turn thinks again");
    }
}

#[test]
fn interleaving_needs_its_beta_on_some_models_only() {
    let betas = |model: &str| {
        let mut request = request(model);
        request.thinking = ThinkingMode::Budget(2000);
        plan(&request).1
    };
    assert_eq!(betas("claude-sonnet-4-5"), [&betas::INTERLEAVED_THINKING]);
    assert!(betas("claude-haiku-4-5").is_empty());
    assert!(betas("claude-sonnet-5-5").is_empty());
}

#[test]
fn effort_is_lowered_to_what_the_model_takes() {
    let effort = |model: &str, asked: &str, thinking| {
        let mut request = request(model);
        request.effort = Some(asked.into());
        request.thinking = thinking;
        plan(&request).0.effort
    };
    assert_eq!(effort("claude-opus-5-5", "xhigh", ThinkingMode::ModelDefault).as_deref(), Some("xhigh"));
    assert_eq!(effort("claude-opus-4-6", "xhigh", ThinkingMode::ModelDefault).as_deref(), Some("high"));
    assert_eq!(effort("claude-opus-5", "max", ThinkingMode::Off).as_deref(), Some("high"));
    assert_eq!(effort("claude-sonnet-5", "max", ThinkingMode::Off).as_deref(), Some("max"));
    assert_eq!(effort("claude-sonnet-4-5", "high", ThinkingMode::ModelDefault), None);
}

#[test]
fn output_limits_are_clamped_to_the_model() {
    let tokens = |model: &str, asked: Option<u64>, effort: Option<&str>| {
        let mut request = request(model);
        request.max_tokens = asked;
        request.effort = effort.map(Into::into);
        plan(&request).0.max_tokens
    };
    assert_eq!(tokens("claude-sonnet-5-5", None, None), 32_000);
    assert_eq!(tokens("claude-sonnet-5-5", None, Some("max")), 64_000);
    assert_eq!(tokens("claude-haiku-4-5", Some(900_000), None), 64_000);
    assert_eq!(tokens("llama", None, None), 32_000);
}

#[test]
fn a_demanded_call_becomes_a_wish_where_demands_are_refused() {
    let choice = |model: &str| {
        let mut request = request(model);
        request.tool_choice = ToolChoice::Any { parallel: false };
        plan(&request).0.tool_choice
    };
    assert_eq!(choice("claude-sonnet-5-5"), ToolChoice::Auto { parallel: false });
    assert_eq!(choice("claude-sonnet-4-6"), ToolChoice::Any { parallel: false });
}

#[test]
fn a_cure_is_adopted_only_when_it_changes_the_body() {
    let (config, request) = (config(), request("claude-sonnet-5-5"));
    let model = resolve("claude-sonnet-5-5");
    let mut learned = ServerQuirks::default();
    assert!(!learned.apply_downgrade(&Downgrade::NoEffort, &config, &model, &request));
    assert!(learned.apply_downgrade(&Downgrade::NoThinkingDisplay, &config, &model, &request));
    assert_eq!(learned.plan(&config, &model, &request).0.thinking, ON_VISIBLE);
    assert!(!learned.apply_downgrade(&Downgrade::NoThinkingDisplay, &config, &model, &request));
}

#[test]
fn unbound_thinking_is_dropped_by_the_server_first_and_stripped_after() {
    let (config, request) = (config(), request("claude-sonnet-5-5"));
    let model = resolve("claude-sonnet-5-5");
    let mut learned = ServerQuirks::default();
    assert!(learned.apply_downgrade(&Downgrade::DropUnboundThinking, &config, &model, &request));
    assert_eq!(learned.plan(&config, &model, &request).1, [&betas::THINKING_BINDING]);
    assert!(learned.apply_downgrade(&Downgrade::StripThinking, &config, &model, &request));
    let (plan, betas) = learned.plan(&config, &model, &request);
    assert_eq!((plan.strip_thinking, betas), (1, vec![]));
    let mut other = request.clone();
    other.messages = vec![Arc::new(Message::user(vec![Block::text("another talk")]))];
    assert_eq!(learned.plan(&config, &model, &other).0.strip_thinking, 0);
}

#[test]
fn cache_marks_can_be_left_out_for_a_family() {
    let env = Env::default().with("ANTHROPIC_API_KEY", "k").with("DISABLE_PROMPT_CACHING_HAIKU", "1");
    let config = ProviderConfig::from_env(&env).unwrap();
    for (model, caches) in [("haiku", false), ("claude-haiku-4-5", false), ("sonnet", true), ("llama", true)] {
        let plan = ServerQuirks::default().plan(&config, &resolve(model), &request(model)).0;
        assert_eq!(plan.caching, caches, "{model}");
    }
}

#[test]
fn another_reply_gets_twice_the_room_within_what_is_possible_and_allowed() {
    let table = [
        ("claude-sonnet-5-5", None, 32_000, Some(64_000), false),
        ("claude-sonnet-5-5", None, 100_000, Some(128_000), false),
        ("claude-sonnet-5-5", None, 128_000, None, false),
        ("claude-sonnet-5-5", Some("8000"), 8_000, None, true),
        ("claude-sonnet-5-5", Some("100000"), 64_000, Some(100_000), false),
    ];
    for (model, cap, sent, more, advised) in table {
        let mut env = Env::default().with("ANTHROPIC_API_KEY", "k");
        if let Some(cap) = cap {
            env = env.with("CLAUDE_CODE_MAX_OUTPUT_TOKENS", cap);
        }
        let config = ProviderConfig::from_env(&env).unwrap();
        let room = ServerQuirks::default().output_limit(&config, &resolve(model), sent);
        assert_eq!(
            (room.max_tokens, room.more, room.advice.is_some()),
            (sent, more, advised),
            "{model} {cap:?} {sent}"
        );
    }
}

/// Checks header value and body member for every row of the table: both with the beta, neither without it.
#[test]
fn a_beta_and_its_member_travel_together_or_not_at_all() {
    let budgeted = |betas: bool| {
        let mut config = config();
        (config.wishes.task_budget, config.wishes.sends_betas) = (Some(50_000), betas);
        config
    };
    let sonnet = resolve("claude-sonnet-5-5");
    let request = request("claude-sonnet-5-5");
    let unbound = || {
        let mut learned = ServerQuirks::default();
        assert!(learned.apply_downgrade(&Downgrade::DropUnboundThinking, &config(), &sonnet, &request));
        learned
    };
    for (beta, member) in [(&betas::THINKING_BINDING, "\"block_binding\""), (&betas::TASK_BUDGET, "\"task_budget\"")] {
        let sent = |learned: &ServerQuirks, allowed: bool| {
            let (plan, betas) = learned.plan(&budgeted(allowed), &sonnet, &request);
            let body = crate::formats::anthropic::build_body(&request, &plan);
            (betas.contains(&beta), std::str::from_utf8(&body).unwrap().contains(member))
        };
        assert_eq!(sent(&unbound(), true), (true, true), "{member}");
        let mut refusing = unbound();
        assert!(refusing.apply_downgrade(
            &Downgrade::NoBeta(Some(beta.value.to_owned())),
            &budgeted(true),
            &sonnet,
            &request
        ));
        assert_eq!(sent(&refusing, true), (false, false), "{member}");
        assert_eq!(sent(&ServerQuirks::default(), false), (false, false), "{member}");
    }
}

#[test]
fn models_that_take_a_budget_too_get_one_when_adaptive_thinking_is_switched_off() {
    let env = Env::default().with("ANTHROPIC_API_KEY", "k").with("CLAUDE_CODE_DISABLE_ADAPTIVE_THINKING", "1");
    let config = ProviderConfig::from_env(&env).unwrap();
    let enabled = |budget| Some(ThinkingField::Enabled { budget });
    for (model, asked, expected) in [
        ("claude-opus-4-6", ThinkingMode::ModelDefault, enabled(31_999)),
        ("claude-sonnet-4-6", ThinkingMode::Budget(8_000), enabled(8_000)),
        ("claude-sonnet-4-6", ThinkingMode::Off, None),
        ("claude-opus-4-7", ThinkingMode::ModelDefault, ON),
        ("claude-sonnet-5-5", ThinkingMode::Budget(8_000), ON),
    ] {
        let request = ModelRequest { thinking: asked, ..request(model) };
        let resolved = resolve(model);
        let (plan, betas) = ServerQuirks::default().plan(&config, &resolved, &request);
        assert_eq!((plan.thinking, betas), (expected, vec![]), "{model} {asked:?}");
        let mut learned = ServerQuirks::default();
        learned.apply_downgrade(&Downgrade::AdaptiveThinking, &config, &resolved, &request);
        let taught = learned.plan(&config, &resolved, &request).0.thinking;
        assert!(!matches!(taught, Some(ThinkingField::Enabled { .. })), "what the server says counts: {model}");
    }
}

#[test]
fn a_gateway_can_be_given_effort_and_unbuffered_inputs() {
    let plan = |name: &str, value: &str, host: &str| {
        let env = Env::default().with("ANTHROPIC_API_KEY", "k").with("ANTHROPIC_BASE_URL", host).with(name, value);
        let request = ModelRequest { effort: Some("max".into()), ..request("llama") };
        let config = ProviderConfig::from_env(&env).unwrap();
        let plan = ServerQuirks::default().plan(&config, &resolve("llama"), &request).0;
        (plan.effort, plan.eager_input)
    };
    let (vendor, gateway) = ("https://api.anthropic.com", "https://gateway.example");
    let eager = "CLAUDE_CODE_ENABLE_FINE_GRAINED_TOOL_STREAMING";
    assert_eq!(plan("UNRELATED", "1", gateway), (None, false));
    assert_eq!(plan("CLAUDE_CODE_ALWAYS_ENABLE_EFFORT", "1", gateway), (Some("max".into()), false));
    assert_eq!(plan(eager, "1", gateway), (None, true));
    assert_eq!((plan(eager, "", vendor), plan(eager, "0", vendor)), ((None, true), (None, false)));
}
