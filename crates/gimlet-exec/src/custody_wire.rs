//! The words between gimlet, the custodian and the keepers, as bytes. Pure: no descriptor, no system call.
//!
//! Three conversations. *Orders* go from gimlet to the custodian, one message a command, with its descriptors. Each
//! command has a status socket of its own on which its keeper sends *news* and gimlet sends *requests*. The lifeline is
//! a stream that carries at most one number, the grace for an orderly end; its silent end means that gimlet died.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

/// Changes with the format, so that a custodian of another build refuses instead of misunderstanding.
const VERSION: u8 = 2;
/// An order above this size travels in a memory file instead of in the message.
pub(crate) const INLINE_ORDER_BYTES: usize = 32 * 1024;

/// The descriptors of an order, in the sequence in which they travel after the status socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OrderDescriptors {
    /// A pipe for standard input; without it the command reads `/dev/null`.
    pub(crate) stdin: bool,
    /// A pipe of its own for standard error; without it both streams share one.
    pub(crate) stderr: bool,
    /// A pipe for the directory that the command ended in.
    pub(crate) report: bool,
    /// The program gets that pipe as descriptor 3; without this it is the keeper's.
    pub(crate) program_reports: bool,
    /// Landlock rule set that restricts the command.
    pub(crate) rules: bool,
    /// The order itself is in a memory file.
    pub(crate) in_file: bool,
}

impl OrderDescriptors {
    fn to_byte(self) -> u8 {
        let Self { stdin, stderr, report, program_reports, rules, in_file } = self;
        let bits = [stdin, stderr, report, in_file, program_reports, rules];
        bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))
    }

    fn from_byte(byte: u8) -> Self {
        let bit = |number: u8| byte >> number & 1 != 0;
        Self { stdin: bit(0), stderr: bit(1), report: bit(2), in_file: bit(3), program_reports: bit(4), rules: bit(5) }
    }
}

/// The words of a command about to be encoded.
pub(crate) struct OrderWords<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) cwd: &'a OsStr,
    /// All arguments, the zeroth included.
    pub(crate) args: &'a [OsString],
    pub(crate) env: &'a [(OsString, OsString)],
}

/// A word that contains the byte which ends words.
#[derive(Debug)]
pub(crate) struct NulInWord;

/// Encodes an order with its header: version, parts, counts. An order in a file has only this in its message.
pub(crate) fn encode_order(words: &OrderWords<'_>, parts: OrderDescriptors) -> Result<Vec<u8>, NulInWord> {
    let mut bytes = Vec::with_capacity(4096);
    bytes.extend([VERSION, parts.to_byte()]);
    bytes.extend((words.args.len() as u32).to_le_bytes());
    bytes.extend((words.env.len() as u32).to_le_bytes());
    push_word(&mut bytes, &[words.program])?;
    push_word(&mut bytes, &[words.cwd])?;
    for arg in words.args {
        push_word(&mut bytes, &[arg])?;
    }
    for (name, value) in words.env {
        push_word(&mut bytes, &[name, OsStr::new("="), value])?;
    }
    Ok(bytes)
}

/// Encodes the message for an order whose bytes are in a memory file.
pub(crate) fn encode_order_in_file(parts: OrderDescriptors) -> [u8; 2] {
    [VERSION, OrderDescriptors { in_file: true, ..parts }.to_byte()]
}

fn push_word(bytes: &mut Vec<u8>, pieces: &[&OsStr]) -> Result<(), NulInWord> {
    for piece in pieces {
        if memchr::memchr(0, piece.as_bytes()).is_some() {
            return Err(NulInWord);
        }
        bytes.extend(piece.as_bytes());
    }
    bytes.push(0);
    Ok(())
}

/// An order as the custodian reads it; the strings borrow from the message and go to the kernel from there.
pub(crate) struct DecodedOrder<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) cwd: &'a CStr,
    pub(crate) args: Vec<&'a CStr>,
    pub(crate) env: Vec<&'a CStr>,
}

/// Returns the descriptors that came with a message; `None` for another version's message.
pub(crate) fn decode_order_descriptors(message: &[u8]) -> Option<OrderDescriptors> {
    match message {
        [VERSION, parts, ..] => Some(OrderDescriptors::from_byte(*parts)),
        _ => None,
    }
}

/// Decodes the whole order; `None` when the bytes are not one.
pub(crate) fn decode_order(message: &[u8]) -> Option<DecodedOrder<'_>> {
    let (args, rest) = take_u32(message.get(2..)?)?;
    let (env, rest) = take_u32(rest)?;
    let mut words = rest.split_inclusive(|byte| *byte == 0).map_while(|word| CStr::from_bytes_with_nul(word).ok());
    let order = DecodedOrder {
        program: words.next()?,
        cwd: words.next()?,
        args: words.by_ref().take(args as usize).collect(),
        env: words.take(env as usize).collect(),
    };
    (order.args.len() == args as usize && order.env.len() == env as usize).then_some(order)
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (u32::from_le_bytes(*number), rest))
}

/// Stage at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartStage {
    /// The order was not understood, or a keeper could not be set up.
    Keeper,
    /// The working directory could not be entered.
    Cwd,
    /// The program could not be run.
    Program,
}

/// Message from a keeper to gimlet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperEvent {
    Started { pid: i32, keeper: i32 },
    Failed { stage: StartStage, errno: i32 },
    Exited { status: i32 },
}

/// The size of every message on a status socket.
pub(crate) const STATUS_BYTES: usize = 12;

impl KeeperEvent {
    pub(crate) fn encode(self) -> [u8; STATUS_BYTES] {
        match self {
            Self::Started { pid, keeper } => status_message(1, pid, keeper),
            Self::Failed { stage, errno } => status_message(2, stage as i32, errno),
            Self::Exited { status } => status_message(3, status, 0),
        }
    }

    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        match parse_status_message(message)? {
            (1, pid, keeper) => Some(Self::Started { pid, keeper }),
            (2, 0, errno) => Some(Self::Failed { stage: StartStage::Keeper, errno }),
            (2, 1, errno) => Some(Self::Failed { stage: StartStage::Cwd, errno }),
            (2, 2, errno) => Some(Self::Failed { stage: StartStage::Program, errno }),
            (3, status, _) => Some(Self::Exited { status }),
            _ => None,
        }
    }
}

/// Request from gimlet to a keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperRequest {
    /// End the whole process tree: TERM, wait for the grace period, then KILL.
    Kill { grace: Duration },
    /// Gimlet no longer reads this socket; remaining processes may live until the session ends. The read ends of the
    /// pipes come along, so that a survivor that still writes is neither blocked nor killed by a full or closed pipe.
    Release,
}

impl KeeperRequest {
    pub(crate) fn encode(self) -> [u8; STATUS_BYTES] {
        match self {
            Self::Kill { grace } => status_message(1, to_millis(grace), 0),
            Self::Release => status_message(2, 0, 0),
        }
    }

    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        match parse_status_message(message)? {
            (1, grace, _) => Some(Self::Kill { grace: Duration::from_millis(grace.max(0) as u64) }),
            (2, _, _) => Some(Self::Release),
            _ => None,
        }
    }
}

/// Encodes the one number that a lifeline may carry.
pub(crate) fn encode_grace(grace: Duration) -> [u8; 4] {
    to_millis(grace).to_le_bytes()
}

/// Decodes the grace period for an orderly end; `None` when gimlet ended without sending it.
pub(crate) fn decode_grace(bytes: &[u8]) -> Option<Duration> {
    bytes.first_chunk().map(|number| Duration::from_millis(i32::from_le_bytes(*number).max(0) as u64))
}

fn to_millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn status_message(kind: i32, first: i32, second: i32) -> [u8; STATUS_BYTES] {
    let mut message = [0; STATUS_BYTES];
    for (field, value) in message.chunks_exact_mut(4).zip([kind, first, second]) {
        field.copy_from_slice(&value.to_le_bytes());
    }
    message
}

fn parse_status_message(message: &[u8]) -> Option<(i32, i32, i32)> {
    let message: &[u8; STATUS_BYTES] = message.try_into().ok()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *message;
    Some((i32::from_le_bytes([a, b, c, d]), i32::from_le_bytes([e, f, g, h]), i32::from_le_bytes([i, j, k, l])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn status_messages_survive_the_trip() {
        let news = [
            KeeperEvent::Started { pid: 7, keeper: 6 },
            KeeperEvent::Failed { stage: StartStage::Keeper, errno: 1 },
            KeeperEvent::Failed { stage: StartStage::Cwd, errno: 2 },
            KeeperEvent::Failed { stage: StartStage::Program, errno: 13 },
            KeeperEvent::Exited { status: 0x8b },
        ];
        for item in news {
            assert_eq!(KeeperEvent::decode(&item.encode()), Some(item));
        }
        for request in [KeeperRequest::Kill { grace: Duration::from_millis(2000) }, KeeperRequest::Release] {
            assert_eq!(KeeperRequest::decode(&request.encode()), Some(request));
        }
        assert_eq!(decode_grace(&encode_grace(Duration::from_secs(3))), Some(Duration::from_secs(3)));
        assert_eq!(decode_grace(&[]), None);
    }

    #[test]
    fn parts_survive_the_trip() {
        for byte in 0..64 {
            assert_eq!(OrderDescriptors::from_byte(byte).to_byte(), byte);
        }
        let rules = OrderDescriptors { rules: true, ..OrderDescriptors::default() };
        assert_eq!(OrderDescriptors::from_byte(rules.to_byte()), rules);
    }

    #[test]
    fn a_word_with_a_nul_is_refused_instead_of_cut() {
        let args = [OsString::from("a\0b")];
        let words = OrderWords { program: OsStr::new("/bin/x"), cwd: OsStr::new("/"), args: &args, env: &[] };
        assert!(encode_order(&words, OrderDescriptors::default()).is_err());
    }

    proptest! {
        #[test]
        fn orders_survive_the_trip(
            args in prop::collection::vec("[^\0]{0,12}", 0..5),
            env in prop::collection::vec(("[A-Z]{1,5}", "[^\0]{0,12}"), 0..5),
        ) {
            let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
            let env: Vec<(OsString, OsString)> = env.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
            let words = OrderWords { program: OsStr::new("/bin/x"), cwd: OsStr::new("/tmp"), args: &args, env: &env };
            let bytes = encode_order(&words, OrderDescriptors { report: true, ..OrderDescriptors::default() }).unwrap();
            let order = decode_order(&bytes).unwrap();
            prop_assert_eq!(order.program.to_bytes(), b"/bin/x");
            prop_assert_eq!(order.cwd.to_bytes(), b"/tmp");
            let seen: Vec<&[u8]> = order.args.iter().map(|arg| arg.to_bytes()).collect();
            prop_assert_eq!(seen, args.iter().map(|arg| arg.as_bytes()).collect::<Vec<_>>());
            let pairs: Vec<Vec<u8>> = env.iter().map(|(n, v)| [n.as_bytes(), b"=", v.as_bytes()].concat()).collect();
            prop_assert_eq!(order.env.iter().map(|word| word.to_bytes().to_vec()).collect::<Vec<_>>(), pairs);
        }

        #[test]
        fn any_bytes_are_an_order_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_order_descriptors(&bytes);
            let _ = decode_order(&bytes).map(drop);
        }
    }
}
