//! The master keys of a node: the newest wraps data keys. While they are changed there are older ones, which only open.

use std::str::FromStr;

use base::secret::{SymmetricKey, Unopened, sha256};

/// The master keys of a node, the newest first. There is no `Debug`.
#[derive(Clone)]
pub struct MasterKeys(Vec<SymmetricKey>);

/// A text that holds no master keys.
#[derive(Debug, thiserror::Error)]
#[error("it must hold a master key, 64 hexadecimal digits (32 bytes), and nothing else but older ones, one a line")]
pub struct Malformed;

/// One key a line, as 64 hexadecimal digits, the newest first.
impl FromStr for MasterKeys {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let read = |line: &str| {
            let mut key = [0; 32];
            hex::decode_to_slice(line, &mut key).map(|()| SymmetricKey::new(key)).map_err(|_| Malformed)
        };
        let keys = text.trim().lines().map(|line| read(line.trim())).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(Malformed) } else { Ok(Self(keys)) }
    }
}

impl MasterKeys {
    /// These keys, with a newer one before them.
    #[must_use]
    pub fn with_newer(&self, newer: SymmetricKey) -> Self {
        Self(std::iter::once(newer).chain(self.0.iter().cloned()).collect())
    }

    /// The newest key alone.
    #[must_use]
    pub fn newest(&self) -> Self {
        Self(self.0.iter().take(1).cloned().collect())
    }

    /// All keys but the newest.
    #[must_use]
    pub fn older(&self) -> Self {
        Self(self.0.iter().skip(1).cloned().collect())
    }

    /// The number of keys.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The keys in the format of a key file.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|key| hex::encode(key.expose()) + "\n").collect()
    }

    /// Identifies the newest key without revealing it.
    pub fn id(&self) -> String {
        let named = [b"platform master key".as_slice(), self.0[0].expose()].concat();
        hex::encode(&sha256(&named)[..8])
    }

    /// Seals with the newest key.
    pub(super) fn seal(&self, purpose: &str, plaintext: &[u8]) -> String {
        self.0[0].seal(purpose, plaintext)
    }

    /// Opens what any of the keys has sealed, and returns whether that was the newest.
    pub(super) fn open(&self, purpose: &str, sealed: &str) -> Result<(Vec<u8>, bool), Unopened> {
        let opened = self.0.iter().enumerate().find_map(|(age, key)| Some((key.open(purpose, sealed).ok()?, age == 0)));
        opened.ok_or(Unopened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<MasterKeys, Malformed> {
        text.parse()
    }

    #[test]
    fn what_an_older_key_wrapped_opens_until_it_is_taken_away() {
        let old = MasterKeys(vec![SymmetricKey::random()]);
        let sealed = old.seal("a purpose", b"a data key");
        let both = old.with_newer(SymmetricKey::random());
        assert_eq!(both.open("a purpose", &sealed).unwrap(), (b"a data key".to_vec(), false));
        assert!(both.open("another purpose", &sealed).is_err());
        let anew = both.seal("a purpose", b"a data key");
        assert_eq!(both.newest().open("a purpose", &anew).unwrap(), (b"a data key".to_vec(), true));
        assert!(both.newest().open("a purpose", &sealed).is_err());
        assert!(old.open("a purpose", &anew).is_err());
        assert_ne!(old.id(), both.id());
    }

    #[test]
    fn a_file_holds_one_key_a_line() {
        let (first, second) = ("0b".repeat(32), "0c".repeat(32));
        let both = keys(&format!("{first}\r\n{second}\n")).unwrap();
        assert_eq!((both.count(), both.to_text()), (2, format!("{first}\n{second}\n")));
        assert_eq!(both.newest().to_text(), format!("{first}\n"));
        for wrong in ["", "\n", "0b", &first[1..], &format!("{first}\n\n{second}"), &format!("{first} {second}")] {
            assert!(keys(wrong).is_err(), "{wrong:?}");
        }
    }
}
