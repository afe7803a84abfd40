//! Output of a run of the binary, parsed on request.

use serde_json::Value;

/// Output and exit code of a finished run.
#[derive(Debug)]
pub struct RunOutput {
    pub stdout: String,
    pub stderr: String,
    /// The exit code, or 128 plus the signal that ended it.
    pub code: i32,
}

impl RunOutput {
    /// Parses stdout as stream-json lines. Panics on a line that is not JSON: nothing else may be printed.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in line {line:?}")))
            .collect()
    }

    /// Parses stdout as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {:?}", self.stdout))
    }

    /// Returns the `result` line of stream-json output.
    pub fn result(&self) -> Value {
        let last = self.lines().into_iter().rev().find(|line| line["type"] == "result");
        last.unwrap_or_else(|| panic!("no result in {}\n{}", self.stdout, self.stderr))
    }

    /// Checks the exit code; panics with the whole output if it differs.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}
