//! What stands between gimlet and the model and goes wrong there: certificates, proxies, and HTTP/2.

use gimlet_script::{Framing, Script, Wire};

use super::front::{Front, Http2};
use super::{play, reads, row, then_done};

#[tokio::test]
async fn a_certificate_that_does_not_hold_is_final_and_says_what_is_wrong() {
    let refused = |name, front, part| row(name, Script::new()).front(front).requests(0).fails(part);
    play(vec![
        refused("unknown authority", Front::UnknownAuthority, "name its PEM file in NODE_EXTRA_CA_CERTS"),
        refused("expired", Front::Expired, "expired"),
        refused("another host", Front::WrongHost, "ANTHROPIC_BASE_URL"),
        row("a trusted authority", Script::new().say("done")).front(Front::Trusted),
    ])
    .await;
}

#[tokio::test]
async fn a_proxy_is_gone_through_where_it_is_named_and_only_there() {
    play(vec![
        row("a tunnel", then_done(reads(Script::new())))
            .front(Front::Proxy)
            .requests(2)
            .history("u:text+text a:call u:result a:text u:text"),
        row("a password is missing", Script::new())
            .front(Front::ProxyWithPassword)
            .requests(0)
            .fails("the proxy demands authentication"),
        row("an exempt host", Script::new().say("done")).front(Front::DeadProxyExempt),
    ])
    .await;
}

#[tokio::test]
async fn an_http2_answer_that_ends_early_is_a_broken_one() {
    let plain = || Wire { framing: Framing::Close, ..Wire::default() };
    let whole = || Script::new().say("done").wire(plain()).times(2);
    let turn = || reads(Script::new().say("Looking.")).wire(plain()).then().say("done").wire(plain());
    let history = "u:text+text a:text+call u:result a:text u:text";
    play(vec![
        row("rst_stream in the first text", whole()).front(Front::Http2(Http2::Reset(40))).retried(1),
        row("goaway in the first text", whole()).front(Front::Http2(Http2::GoAway(40))).retried(1),
        row("goaway behind the answer", turn()).front(Front::Http2(Http2::LastOne)).requests(2).history(history),
        row("rst_stream behind a whole call", turn())
            .front(Front::Http2(Http2::Reset(85)))
            .requests(2)
            .notice("the reply was cut")
            .history(history),
    ])
    .await;
}
