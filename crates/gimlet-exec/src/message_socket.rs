//! Whole messages with descriptors over a Unix socket pair. Knows bytes and descriptors, not their meaning.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

/// The most descriptors that travel with one message: status, three streams, report and payload.
pub(crate) const MAX_DESCRIPTORS: usize = 6;

/// Returns a pair of connected sockets that preserve message boundaries and detect each other's close.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message without ever blocking; [`Errno::AGAIN`] when the other side lags behind.
pub(crate) fn send(socket: impl AsFd, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOMANYREFS);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_interrupted(|| rustix::net::sendmsg(&socket, &[IoSlice::new(message)], &mut control, flags)).map(drop)
}

/// Result of one call of [`receive`].
pub(crate) struct ReceivedMessage {
    /// Number of bytes in the buffer that the message filled; zero means that the other side is gone.
    pub(crate) len: usize,
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// Receives one message without blocking; [`Errno::AGAIN`] when there is none.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<ReceivedMessage, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message =
        retry_interrupted(|| rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, flags));
    let len = match message {
        Ok(message) => message.bytes,
        Err(Errno::CONNRESET) => 0,
        Err(error) => return Err(error),
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok(ReceivedMessage { len, descriptors })
}

/// Reads pending data without consuming it, so that every holder of the socket can see it.
pub(crate) fn peek(socket: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    retry_interrupted(|| rustix::net::recv(&socket, &mut *buffer, flags)).map(|(read, _)| read)
}

fn retry_interrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}
