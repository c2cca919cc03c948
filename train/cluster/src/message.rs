//! The messages on the engine's channels: pieces of gradients and of other data, each with a head that identifies it.

use std::io::Write;
use std::sync::Arc;

use timely_bytes::arc::Bytes;
use timely_communication::Bytesable;

/// The maximum length of a message's contents, in bytes.
pub const MOST_BYTES: usize = 1 << 18;

/// The kind of a message's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A partial sum of gradients, the value of one node of the addition tree.
    Part = 1,
    /// The sum over all shards, or the new parameters computed from it.
    Total = 2,
    /// Data for all other processes (all-gather).
    Words = 3,
    /// Data from process 0 for all others (broadcast).
    Broadcast = 4,
    /// Data for process 0 only (gather).
    Collected = 5,
    /// Empty: a heartbeat of the connection.
    Beat = 6,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Part, Kind::Total, Kind::Words, Kind::Broadcast, Kind::Collected, Kind::Beat];
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the run.
    pub run: u64,
    /// The number of the sum or of the other operation; all processes count these equally.
    pub number: u64,
    /// The kind of the contents.
    pub kind: Kind,
    /// The node of the addition tree, for a partial sum.
    pub node: u32,
    /// The index of the piece.
    pub piece: u32,
    /// The number of pieces.
    pub pieces: u32,
}

impl Head {
    /// The length of a head, in bytes.
    pub const BYTES: usize = 32;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.run.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        let words = [self.kind as u32, self.node, self.piece, self.pieces];
        bytes[16..].copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (long, short) = bytes.split_at_checked(16)?;
        let [run, number] = *long.as_chunks::<8>().0.first_chunk::<2>()?;
        let [kind, node, piece, pieces] = short.as_chunks::<4>().0.first_chunk::<4>()?.map(u32::from_le_bytes);
        let kind = Kind::ALL.into_iter().find(|k| *k as u32 == kind)?;
        Some(Head { run: u64::from_le_bytes(run), number: u64::from_le_bytes(number), kind, node, piece, pieces })
    }
}

/// A message, to be sent or received.
#[derive(Clone)]
pub enum Message {
    /// Numbers to be sent to one process or several.
    Numbers(Head, Arc<Vec<f32>>),
    /// Bytes to be sent.
    Bytes(Head, Arc<[u8]>),
    /// A received message, in a buffer of the engine.
    Received(Bytes),
}

impl Message {
    /// Returns the head and contents of a received message, or `None` if its head is invalid.
    pub fn read(&self) -> Option<(Head, &[u8])> {
        let Message::Received(bytes) = self else { return None };
        Some((Head::from_bytes(bytes)?, bytes.get(Head::BYTES..)?))
    }
}

/// Decodes the numbers of a message's contents. Returns `None` unless there are exactly `expected`.
pub fn numbers(contents: &[u8], expected: usize) -> Option<Vec<f32>> {
    let (numbers, rest) = contents.as_chunks::<4>();
    (rest.is_empty() && numbers.len() == expected).then(|| numbers.iter().map(|&x| f32::from_le_bytes(x)).collect())
}

impl Bytesable for Message {
    fn from_bytes(bytes: Bytes) -> Self {
        Message::Received(bytes)
    }

    fn length_in_bytes(&self) -> usize {
        match self {
            Message::Numbers(_, numbers) => Head::BYTES + 4 * numbers.len(),
            Message::Bytes(_, bytes) => Head::BYTES + bytes.len(),
            Message::Received(bytes) => bytes.len(),
        }
    }

    fn into_bytes<W: Write>(&self, to: &mut W) {
        let mut write = |bytes: &[u8]| to.write_all(bytes).expect("the engine has made room");
        match self {
            Message::Numbers(head, numbers) => {
                write(&head.to_bytes());
                let mut bytes = [[0; 4]; 1024];
                for numbers in numbers.chunks(bytes.len()) {
                    bytes.iter_mut().zip(numbers).for_each(|(to, x)| *to = x.to_le_bytes());
                    write(bytes[..numbers.len()].as_flattened());
                }
            }
            Message::Bytes(head, bytes) => {
                write(&head.to_bytes());
                write(bytes);
            }
            Message::Received(bytes) => write(bytes),
        }
    }
}

/// Cuts data of any length into messages, at least one.
pub fn cut(head: Head, words: &[u8]) -> Vec<Message> {
    let pieces = words.len().div_ceil(MOST_BYTES).max(1);
    let message = |piece: usize| {
        let contents = &words[piece * MOST_BYTES..words.len().min((piece + 1) * MOST_BYTES)];
        Message::Bytes(Head { piece: piece as u32, pieces: pieces as u32, ..head }, contents.into())
    };
    (0..pieces).map(message).collect()
}

#[cfg(test)]
pub mod tests {
    use timely_bytes::arc::BytesMut;

    use super::*;

    /// Returns a message as received.
    pub fn sent(message: &Message) -> Message {
        let mut bytes: Vec<u8> = Vec::new();
        message.into_bytes(&mut bytes);
        assert_eq!(bytes.len(), message.length_in_bytes());
        Message::from_bytes(BytesMut::from(bytes).freeze())
    }

    pub const HEAD: Head = Head { run: 1 << 60, number: 7, kind: Kind::Words, node: 3, piece: 0, pieces: 1 };

    #[test]
    fn what_is_sent_comes() {
        let x: Vec<f32> = (0..2500).map(|i| 1.0 / i as f32).collect();
        let came = sent(&Message::Numbers(HEAD, Arc::new(x.clone())));
        let (head, contents) = came.read().unwrap();
        assert_eq!((head, numbers(contents, 2500).unwrap()), (HEAD, x));
        assert!(numbers(contents, 2499).is_none() && numbers(&contents[1..], 2499).is_none());
        assert_eq!(sent(&came).read(), came.read());
        for kind in Kind::ALL {
            let head = Head { kind, ..HEAD };
            assert_eq!(sent(&Message::Bytes(head, [5, 6].into())).read(), Some((head, &[5, 6][..])));
        }
        let short = |n| Message::from_bytes(BytesMut::from(vec![0; n]).freeze());
        assert!(short(31).read().is_none() && short(40).read().is_none(), "no head, and none of a known kind");
    }

    #[test]
    fn words_of_any_length_are_cut() {
        for n in [0, 1, MOST_BYTES, MOST_BYTES + 1, 3 * MOST_BYTES] {
            let words: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
            let messages: Vec<Message> = cut(HEAD, &words).iter().map(sent).collect();
            assert_eq!(messages.len(), n.div_ceil(MOST_BYTES).max(1));
            let mut whole: Vec<u8> = Vec::new();
            for (i, message) in messages.iter().enumerate() {
                let (head, contents) = message.read().unwrap();
                assert_eq!(head, Head { piece: i as u32, pieces: messages.len() as u32, ..HEAD });
                whole.extend(contents);
            }
            assert_eq!(whole, words);
        }
    }
}
