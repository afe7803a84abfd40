//! Lines: a format of three events, `{"begin":MODEL}`, `{"say":TEXT}` and `{"end":REASON}`. It knows text and no tools.

use bytes::Bytes;
use gimlet_proto::{Message, ModelEvent};
use serde_json::{Value, json};

use crate::downgrade::Downgrade;
use crate::error_body::ErrorBody;
use crate::formats::anthropic::ReplyReader;
use crate::formats::reply_state::{ReplyState, StreamFault, StreamFlow};
use crate::formats::{PlanContext, PlannedRequest, WireFormat, WireReader};
use crate::server_quirks::ServerQuirks;

pub(crate) struct LinesFormat;

impl WireFormat for LinesFormat {
    fn plan(&self, cx: &PlanContext<'_>, quirks: &ServerQuirks) -> PlannedRequest {
        let model = &cx.model.id;
        let wanted = cx.request.max_tokens.or(cx.wishes.max_output_tokens).unwrap_or(8_000);
        let limit = wanted.min(quirks.of_model(model).max_tokens.unwrap_or(u64::MAX));
        let talk: Vec<Value> =
            cx.request.messages.iter().map(|said| json!({"by": said.role.as_str(), "text": text_of(said)})).collect();
        let body = json!({"model": model, "limit": limit, "system": cx.request.system.join("\n"), "talk": talk});
        PlannedRequest {
            body: Bytes::from(body.to_string()),
            headers: Vec::new(),
            options: vec![("model", model.clone())],
            room: cx.output_limit(quirks, limit),
        }
    }

    fn reader(&self, start: ReplyState) -> Box<dyn WireReader> {
        Box::new(LinesReader { reply: ReplyReader::from_state(start) })
    }

    fn find_downgrade(&self, body: &ErrorBody) -> Option<Downgrade> {
        let limit = body.message.strip_prefix("limit is at most ")?;
        limit.parse().ok().map(Downgrade::MaxTokens)
    }

    fn apply_downgrade(&self, downgrade: &Downgrade, cx: &PlanContext<'_>, quirks: &mut ServerQuirks) -> bool {
        let Downgrade::MaxTokens(limit) = downgrade else { return false };
        quirks.of_model_mut(&cx.model.id).max_tokens.replace(*limit) != Some(*limit)
    }

    fn implied_status(&self, body: &ErrorBody) -> u16 {
        if body.kind == "busy" { 529 } else { 500 }
    }
}

fn text_of(message: &Message) -> String {
    message.blocks.iter().filter_map(|block| block.as_text()).collect()
}

/// Translates the events of the wire into those of the Messages API.
struct LinesReader {
    reply: ReplyReader,
}

impl WireReader for LinesReader {
    fn read_event(
        &mut self,
        _name: &str,
        data: &str,
        out: &mut dyn FnMut(ModelEvent),
    ) -> Result<StreamFlow, StreamFault> {
        let Ok(line) = serde_json::from_str::<Value>(data) else {
            return Err(StreamFault::Protocol("an event of the answer is not valid JSON"));
        };
        if !line["error"].is_null() {
            return Err(StreamFault::Reported(data.to_owned()));
        }
        let mut flow = StreamFlow::Noise;
        for event in translate(&line) {
            flow = self.reply.read_event("", &event.to_string(), &mut *out)?;
        }
        Ok(flow)
    }

    fn state(&self) -> &ReplyState {
        self.reply.state()
    }

    fn state_mut(&mut self) -> &mut ReplyState {
        self.reply.state_mut()
    }
}

fn translate(line: &Value) -> Vec<Value> {
    if let Some(model) = line["begin"].as_str() {
        return vec![
            json!({"type": "message_start", "message": {"id": "lines", "model": model}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ];
    }
    if let Some(text) = line["say"].as_str() {
        let delta = json!({"type": "text_delta", "text": text});
        return vec![json!({"type": "content_block_delta", "index": 0, "delta": delta})];
    }
    let Some(reason) = line["end"].as_str() else { return Vec::new() };
    let reason = if reason == "limit" { "max_tokens" } else { "end_turn" };
    let usage = json!({"input_tokens": line["read"], "output_tokens": line["written"]});
    vec![
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}),
        json!({"type": "message_stop"}),
    ]
}

#[cfg(test)]
#[path = "toy_lines_tests.rs"]
mod tests;
