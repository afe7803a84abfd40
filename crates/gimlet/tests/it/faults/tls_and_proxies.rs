//! What stands between gimlet and the model and goes wrong there: certificates, proxies, and HTTP/2.

use gimlet_script::{BodyFraming, Script, WireShape};

use super::network_front::{Http2Fault, NetworkFront};
use super::{new_row, play_rows, with_final_answer, with_read_call};

#[tokio::test]
async fn a_certificate_that_does_not_hold_is_final_and_says_what_is_wrong() {
    let refused =
        |name, front, part| new_row(name, Script::new()).with_front(front).expect_requests(0).expect_error(part);
    play_rows(vec![
        refused("unknown authority", NetworkFront::UnknownAuthority, "name its PEM file in NODE_EXTRA_CA_CERTS"),
        refused("expired", NetworkFront::Expired, "expired"),
        refused("another host", NetworkFront::WrongHost, "ANTHROPIC_BASE_URL"),
        new_row("a trusted authority", Script::new().say("done")).with_front(NetworkFront::Trusted),
    ])
    .await;
}

#[tokio::test]
async fn a_proxy_is_gone_through_where_it_is_named_and_only_there() {
    play_rows(vec![
        new_row("a tunnel", with_final_answer(with_read_call(Script::new())))
            .with_front(NetworkFront::Proxy)
            .expect_requests(2)
            .expect_history("u:text+text a:call u:result a:text u:text"),
        new_row("a password is missing", Script::new())
            .with_front(NetworkFront::ProxyWithPassword)
            .expect_requests(0)
            .expect_error("the proxy demands authentication"),
        new_row("an exempt host", Script::new().say("done")).with_front(NetworkFront::DeadProxyExempt),
    ])
    .await;
}

#[tokio::test]
async fn an_http2_answer_that_ends_early_is_a_broken_one() {
    let plain = || WireShape { framing: BodyFraming::Close, ..WireShape::default() };
    let whole = || Script::new().say("done").wire(plain()).times(2);
    let turn = || with_read_call(Script::new().say("Looking.")).wire(plain()).then().say("done").wire(plain());
    let history = "u:text+text a:text+call u:result a:text u:text";
    play_rows(vec![
        new_row("rst_stream in the first text", whole())
            .with_front(NetworkFront::Http2(Http2Fault::Reset(40)))
            .expect_retries(1),
        new_row("goaway in the first text", whole())
            .with_front(NetworkFront::Http2(Http2Fault::GoAway(40)))
            .expect_retries(1),
        new_row("goaway behind the answer", turn())
            .with_front(NetworkFront::Http2(Http2Fault::RefuseNext))
            .expect_requests(2)
            .expect_history(history),
        new_row("rst_stream behind a whole call", turn())
            .with_front(NetworkFront::Http2(Http2Fault::Reset(85)))
            .expect_requests(2)
            .expect_notice("the reply was cut")
            .expect_history(history),
    ])
    .await;
}
