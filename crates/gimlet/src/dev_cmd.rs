//! `gimlet dev`: tools for developing gimlet or testing against it.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use gimlet_script::{Script, ScriptServer};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::args::ScriptedModelArgs;
use crate::report::Report;

/// Serves a scripted model until standard input closes.
pub(crate) async fn serve_scripted_model(options: &ScriptedModelArgs) -> Result<ExitCode, Report> {
    let ScriptedModelArgs { script: file, bind, record, timings } = options;
    let text = std::fs::read_to_string(file)
        .map_err(|error| Report::new(format!("{} cannot be read: {error}", file.display())))?;
    let script = Script::from_json(&text).map_err(|error| Report::new(format!("{}: {error}", file.display())))?;
    let address: SocketAddr =
        bind.parse().map_err(|_| Report::new(format!("--bind: '{bind}' is not an address such as 127.0.0.1:0")))?;
    if !address.ip().is_loopback() {
        return Err(Report::new("--bind: the scripted model listens on loopback addresses only"));
    }
    let started = Instant::now();
    let server = ScriptServer::bind(script, address).await.map_err(|error| Report::new(error.to_string()))?;
    if let Some(folder) = record {
        std::fs::create_dir_all(folder)
            .map_err(|error| Report::new(format!("{} cannot be made: {error}", folder.display())))?;
        server.record_dir(folder);
    }
    crate::print_line(&server.address_line());
    wait_for_stdin_close().await;
    if let Some(file) = timings {
        std::fs::write(file, timings_json(&server, started))
            .map_err(|error| Report::new(format!("{} cannot be written: {error}", file.display())))?;
    }
    let summary = server.shutdown().await;
    for failure in &summary.failures {
        crate::print_error_line(failure);
    }
    Ok(if summary.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn wait_for_stdin_close() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 1024];
    while stdin.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

/// Returns, per request, the time it was received, the time its answer was sent, and its size.
fn timings_json(server: &ScriptServer, started: Instant) -> String {
    let micros = |at: Instant| u64::try_from(at.duration_since(started).as_micros()).unwrap_or(u64::MAX);
    let rows: Vec<serde_json::Value> = server
        .requests()
        .iter()
        .map(|request| {
            json!({
                "arrived": micros(request.arrived_at()),
                "ended": request.outcome().ended_at.map(micros),
                "status": request.outcome().status,
                "bytes": request.body().len(),
            })
        })
        .collect();
    serde_json::Value::Array(rows).to_string()
}
