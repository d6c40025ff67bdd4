//! Frames: `TWF1`, length, CRC-32 (both little-endian `u32`), then so many bytes. Nothing is allocated for a length that no
//! message has, and whatever else is in the stream is found to be no frame.

use std::io::{self, Read, Write};

const MAGIC: [u8; 4] = *b"TWF1";
const HEADER: usize = 12;
/// The longest message, in bytes. The longest real one is a question that opens a weight: its files' names.
pub const LONGEST: usize = 1 << 20;

/// Why no frame was read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other side has closed the stream, or is gone.
    #[error("the stream ended")]
    Closed,
    /// Something else is in the stream.
    #[error("not a message: {0}")]
    Garbage(String),
    /// The stream broke.
    #[error(transparent)]
    Io(io::Error),
}

/// Writes one message in one piece.
///
/// # Errors
/// If the other side is gone, or the message is longer than [`LONGEST`].
pub fn write(stream: &mut impl Write, message: &[u8]) -> io::Result<()> {
    if message.len() > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} bytes in one message", message.len()),
        ));
    }
    let mut frame = Vec::with_capacity(HEADER + message.len());
    frame.extend(MAGIC);
    frame.extend((message.len() as u32).to_le_bytes());
    frame.extend(crc32fast::hash(message).to_le_bytes());
    frame.extend(message);
    stream.write_all(&frame)?;
    stream.flush()
}

/// Reads one message.
///
/// # Errors
/// If there is none.
pub fn read(stream: &mut impl Read) -> Result<Vec<u8>, FrameError> {
    let mut header = [0; HEADER];
    fill(stream, &mut header)?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let (length, sum) = (word(4) as usize, word(8));
    if header[..4] != MAGIC {
        return Err(FrameError::Garbage(format!("{:?}", String::from_utf8_lossy(&header))));
    }
    if length > LONGEST {
        return Err(FrameError::Garbage(format!("a length of {length} bytes")));
    }
    let mut message = vec![0; length];
    fill(stream, &mut message)?;
    if crc32fast::hash(&message) != sum {
        return Err(FrameError::Garbage("its checksum does not match".into()));
    }
    Ok(message)
}

/// The beginning of a stream that is read as it comes.
#[derive(Debug, Default)]
pub struct Inbox(Vec<u8>);

impl Inbox {
    /// Adds what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Takes the first message out, if it is whole.
    ///
    /// # Errors
    /// If what has come is no message, nor the beginning of one.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let mut rest = self.0.as_slice();
        match read(&mut rest) {
            Ok(message) => {
                let used = self.0.len() - rest.len();
                self.0.drain(..used);
                Ok(Some(message))
            }
            // Not all of it has come; what has must look like one.
            Err(FrameError::Closed) => {
                let start = self.0.len().min(MAGIC.len());
                if self.0[..start] == MAGIC[..start] {
                    return Ok(None);
                }
                Err(FrameError::Garbage(format!("{:?}", String::from_utf8_lossy(&self.0))))
            }
            Err(error) => Err(error),
        }
    }
}

fn fill(stream: &mut impl Read, bytes: &mut [u8]) -> Result<(), FrameError> {
    stream.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FrameError::Closed,
        _ => FrameError::Io(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_in_order_and_then_the_stream_ends() {
        let mut stream = Vec::new();
        for message in [b"".as_slice(), b"one", &[0xff; 5000]] {
            write(&mut stream, message).unwrap();
        }
        let mut stream = stream.as_slice();
        assert_eq!(read(&mut stream).unwrap(), b"");
        assert_eq!(read(&mut stream).unwrap(), b"one");
        assert_eq!(read(&mut stream).unwrap(), [0xff; 5000]);
        assert!(matches!(read(&mut stream), Err(FrameError::Closed)));
    }

    #[test]
    fn what_a_kernel_prints_into_the_stream_is_no_message() {
        let error = read(&mut b"hello from a kernel\n".as_slice()).unwrap_err();
        assert!(error.to_string().contains("hello from"), "{error}");
        // A length that would need 4 GiB is refused before anything is allocated.
        let mut long = b"TWF1".to_vec();
        long.extend([0xff; 8]);
        assert!(read(&mut long.as_slice()).unwrap_err().to_string().contains("4294967295"));
        assert!(write(&mut Vec::new(), &vec![0; LONGEST + 1]).is_err());
    }

    #[test]
    fn a_message_that_comes_in_pieces_is_whole_when_its_last_byte_is_there() {
        let mut stream = Vec::new();
        write(&mut stream, b"one").unwrap();
        write(&mut stream, b"two").unwrap();
        let mut inbox = Inbox::default();
        let mut got = Vec::new();
        for (at, byte) in stream.iter().enumerate() {
            inbox.push(&[*byte]);
            got.extend(inbox.take().unwrap().map(|message| (at + 1, message)));
        }
        assert_eq!(got, [(15, b"one".to_vec()), (30, b"two".to_vec())]);
        inbox.push(b"no");
        assert!(inbox.take().is_err());
    }

    proptest! {
        #[test]
        fn a_changed_byte_never_passes_for_the_message(
            message in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), flip in 1..=255u8
        ) {
            let mut stream = Vec::new();
            write(&mut stream, &message).unwrap();
            let at = at.index(stream.len());
            stream[at] ^= flip;
            prop_assert!(read(&mut stream.as_slice()).is_err());
        }
    }
}
