//! Limits of connections, streams, bytes and times.

use std::time::Duration;

use crate::enrolment::LIFE;

/// Bytes that are read from a socket at one time.
pub const READ: usize = 16 * 1024;
/// Bytes that a stream may have sent and that are not yet written, in HTTP/2.
pub const SEND_BUFFER: usize = 64 * 1024;
/// Time for which a stream that this side reset is known: what is still on its way for it, up to a
/// window, is then no error.
pub const RESET_KEPT: Duration = Duration::from_secs(30);
/// Number of such streams of a connection.
pub const RESETS_KEPT: usize = 4096;
/// Number of errors, over the life of a connection, by which the other side uses streams that are
/// not known any more. With one more the connection ends, with all its streams.
pub const RESETS_MAX: usize = 65_536;
/// Maximum size of the headers of a request or an answer, in bytes.
pub const HEADERS_MAX: u32 = 4 * 1024;

/// Maximum size of the head of a request of HTTP/1.1, in bytes.
pub const REQUEST_HEAD_MAX: usize = 16 * 1024;

/// Limits of one side of a tunnel. Tests shorten the times.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Streams of one connection.
    pub streams: u32,
    /// Bytes that the other side may send on a stream before they are written on. At 50 ms round
    /// trip a mebibyte allows 14 MiB/s.
    pub window: u32,
    /// Bytes that the process holds, [beyond the allowance](crate::budget) of each stream.
    pub held: usize,
    /// Connections of agents, those in the handshake included.
    pub agents: usize,
    /// Connections in the handshake.
    pub handshakes: usize,
    /// Connections of agents with one name. A further one closes the oldest.
    pub agents_of_a_name: usize,
    /// Connections of clients.
    pub clients: usize,
    /// Connections of clients of the authenticated front.
    pub authenticated_clients: usize,
    /// Streams of clients of the authenticated front to one member. The others of a connection are
    /// the controller's.
    pub authenticated_streams: u32,
    /// Clients without a valid password that wait for their refusal. A further one is closed.
    pub refusals: usize,
    /// Time that the refusal of a password takes.
    pub refusal: Duration,
    /// Connections of agents that enrol. They take no places of agents with a certificate.
    pub enrolments: usize,
    /// Time for the request of an agent that enrols or renews, and its answer.
    pub enrolment: Duration,
    /// Validity of the certificates that agents are given.
    pub certificate: Duration,
    /// Pause between two PINGs.
    pub ping_every: Duration,
    /// Time for the answer to a PING.
    pub ping_answer: Duration,
    /// Time for TCP to the tunnel or the API server.
    pub dial: Duration,
    /// Time for the TLS handshake, and for the head of a client's request.
    pub handshake: Duration,
    /// Time for the answer to the introduction or to CONNECT.
    pub answer: Duration,
    /// Time in which an agent gives credentials, from the handshake of the controller on.
    pub credentials: Duration,
    /// Time for the other direction of a stream once one has ended.
    pub half_closed: Duration,
    /// Time for streams once a connection is to be closed.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 64,
            window: 1024 * 1024,
            held: 128 * 1024 * 1024,
            agents: 4096,
            handshakes: 512,
            agents_of_a_name: 4,
            clients: 16_384,
            authenticated_clients: 1024,
            authenticated_streams: 48,
            refusals: 64,
            refusal: Duration::from_secs(1),
            enrolments: 64,
            enrolment: Duration::from_secs(5),
            certificate: LIFE,
            ping_every: Duration::from_secs(5),
            ping_answer: Duration::from_secs(10),
            dial: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            answer: Duration::from_secs(10),
            credentials: Duration::from_secs(20),
            half_closed: Duration::from_secs(30),
            drain: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Returns the window of a connection: streams that are not read leave the windows of all
    /// others as they are.
    pub fn connection_window(&self) -> u32 {
        self.window.saturating_mul(self.streams)
    }

    /// Returns the number of connections of agents with one name, with those that are not
    /// introduced yet and those that drain.
    pub fn connections_of_a_name(&self) -> u32 {
        u32::try_from(self.agents_of_a_name).map_or(u32::MAX, |most| most.saturating_mul(4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_take_a_second_and_are_64_by_default() {
        let limits = Limits::default();
        assert_eq!(limits.refusal, Duration::from_secs(1));
        assert_eq!(limits.refusals, 64);
    }
}
