//! A keeper forked in advance, so that no command waits for a fork.
//!
//! It takes the next order directly from gimlet and notifies the custodian, which then forks the next one. A socket
//! between the two carries that one message, and its end signals to each of them that the other is gone: a spare
//! without a custodian exits, so that gimlet finds its orders socket closed and starts a new custodian.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::keeper::{self, Keeper};
use crate::sys::{self, ForkSide};
use crate::{custody_wire, message_socket};

/// The custodian's end of the socket to the spare.
pub(super) struct SpareKeeper {
    leash: OwnedFd,
}

/// Status of a spare keeper.
#[derive(Debug, PartialEq)]
pub(super) enum SpareStatus {
    /// It has an order and is a keeper like any other now.
    Working,
    /// There will be no more orders.
    NoMoreOrders,
    /// Killed before it had an order.
    Lost,
}

const WORKING: u8 = b'w';
const NO_MORE_ORDERS: u8 = b'e';

impl SpareKeeper {
    /// Forks a keeper that waits for an order, and returns it with its process id. The child takes its copy of
    /// `orders`.
    pub(super) fn fork(orders: &mut Option<OwnedFd>, lifeline: &OwnedFd) -> std::io::Result<(Self, i32)> {
        let (leash, far) = message_socket::pair()?;
        match sys::fork()? {
            ForkSide::Parent(pid) => Ok((Self { leash }, pid)),
            ForkSide::Child => {
                drop(leash);
                if let Some(orders) = orders.take() {
                    run_spare(orders, lifeline, far);
                }
                sys::exit_now(0)
            }
        }
    }

    pub(super) fn leash(&self) -> &OwnedFd {
        &self.leash
    }

    /// Returns the keeper's status; `None` while it waits.
    pub(super) fn status(&self) -> Option<SpareStatus> {
        let mut word = [0; 1];
        match message_socket::receive(&self.leash, &mut word) {
            Err(Errno::AGAIN) => None,
            Ok(received) if received.len == 1 && word == [WORKING] => Some(SpareStatus::Working),
            Ok(received) if received.len == 1 && word == [NO_MORE_ORDERS] => Some(SpareStatus::NoMoreOrders),
            Ok(_) | Err(_) => Some(SpareStatus::Lost),
        }
    }
}

/// Runs a spare: prepares in advance, waits for an order, and keeps that command.
fn run_spare(orders: OwnedFd, lifeline: &OwnedFd, leash: OwnedFd) {
    let prepared = keeper::prepare_keeper(lifeline);
    let mut buffer = vec![0; custody_wire::INLINE_ORDER_BYTES + 1024];
    let received = loop {
        if !wait_for_order(&orders, lifeline, &leash) {
            return;
        }
        match message_socket::receive(&orders, &mut buffer) {
            Ok(received) if received.len > 0 => break received,
            Err(Errno::AGAIN) => {}
            Ok(_) | Err(_) => {
                let _ = message_socket::send(&leash, &[NO_MORE_ORDERS], &[]);
                return;
            }
        }
    };
    let message = buffer.get(..received.len).unwrap_or_default();
    let started = Keeper::start(message, received.descriptors, prepared);
    // Sent only now: the custodian's next fork must not compete with the start of a command that the user waits for.
    let _ = message_socket::send(&leash, &[WORKING], &[]);
    drop((orders, leash));
    if let Some(mut keeper) = started {
        keeper.run();
    }
}

/// Waits for an order; returns false when the spare is no longer needed.
fn wait_for_order(orders: &OwnedFd, lifeline: &OwnedFd, leash: &OwnedFd) -> bool {
    let mut polled = [orders, lifeline, leash].map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
    super::poll(&mut polled, None::<Duration>);
    let [_, lifeline, leash] = polled;
    lifeline.revents().is_empty() && leash.revents().is_empty()
}
