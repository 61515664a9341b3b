//! Randomness, encryption and keyed hashes. No other module draws or compares secrets.

use aws_lc_rs::{
    aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    digest, hmac, rand,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The first byte of every ciphertext, so that the format can change.
const FORMAT: u8 = 1;

/// A 256-bit key. It has no `Debug` and is wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SymmetricKey([u8; 32]);

/// The error for a ciphertext that this key and purpose do not open: truncated, changed, or of another key.
#[derive(Debug, thiserror::Error)]
#[error("the ciphertext cannot be decrypted with this key")]
pub struct Unopened;

impl SymmetricKey {
    /// Generates a new key.
    pub fn random() -> Self {
        Self(random())
    }

    /// Creates a key from existing bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for wrapping.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Encrypts (AES-256-GCM-SIV) and binds the ciphertext to its purpose, base64url without padding.
    pub fn seal(&self, purpose: &str, plaintext: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(self.seal_bytes(purpose, plaintext))
    }

    /// Opens what [`SymmetricKey::seal`] made for the same purpose.
    pub fn open(&self, purpose: &str, sealed: &str) -> Result<Vec<u8>, Unopened> {
        self.open_bytes(purpose, &URL_SAFE_NO_PAD.decode(sealed).map_err(|_| Unopened)?)
    }

    /// [`SymmetricKey::seal`] as bytes: format, nonce, ciphertext and tag.
    pub fn seal_bytes(&self, purpose: &str, plaintext: &[u8]) -> Vec<u8> {
        let mut text = plaintext.to_vec();
        let nonce = self
            .aead()
            .seal_in_place_append_tag(Aad::from(purpose.as_bytes()), &mut text)
            .expect("only a plaintext of gigabytes is refused");
        [&[FORMAT], nonce.as_ref().as_slice(), &text].concat()
    }

    /// Opens what [`SymmetricKey::seal_bytes`] made for the same purpose.
    pub fn open_bytes(&self, purpose: &str, sealed: &[u8]) -> Result<Vec<u8>, Unopened> {
        let (format, rest) = sealed.split_first().ok_or(Unopened)?;
        if *format != FORMAT || rest.len() < NONCE_LEN {
            return Err(Unopened);
        }
        let (nonce, text) = rest.split_at(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unopened)?;
        let mut text = text.to_vec();
        let opened =
            self.aead().open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut text).map_err(|_| Unopened)?;
        Ok(opened.to_vec())
    }

    /// Derives the key of another purpose: who has it can find out neither this key nor those of other purposes.
    #[must_use]
    pub fn derived(&self, purpose: &str) -> Self {
        Self(self.mac(&[purpose.as_bytes()]))
    }

    /// Returns the HMAC-SHA256 of the parts; their lengths are included, so that parts cannot shift.
    pub fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.0));
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut mac = [0; 32];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }

    fn aead(&self) -> RandomizedNonceKey {
        RandomizedNonceKey::new(&AES_256_GCM_SIV, &self.0).expect("a key of this type has the right length")
    }
}

/// Returns random bytes from the operating system's generator.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system's random generator does not fail once it is seeded");
    bytes
}

/// Returns a random string of letters and digits, about 5.95 bits a character.
pub fn random_text(length: usize) -> String {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::with_capacity(length);
    while text.len() < length {
        // Bytes from 248 on are drawn again: 248 is a multiple of 62, so every character is as likely as another.
        let fair = random::<64>().into_iter().filter(|byte| *byte < 248);
        text.extend(fair.map(|byte| char::from(ALPHABET[usize::from(byte % 62)])).take(length - text.len()));
    }
    text
}

/// Returns a random 256-bit secret, base64url without padding.
pub fn random_secret() -> String {
    URL_SAFE_NO_PAD.encode(random::<32>())
}

/// Returns the HMAC-SHA256 of the concatenated parts, under a key of any length.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        context.update(part);
    }
    let mut mac = [0; 32];
    mac.copy_from_slice(context.sign().as_ref());
    mac
}

/// Returns the SHA-256 hash.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// Compares in constant time for equal lengths.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(a, b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_whole_unchanged_and_for_its_purpose() {
        let key = SymmetricKey::random();
        let sealed = key.seal_bytes("purpose", b"text");
        assert_eq!(key.open_bytes("purpose", &sealed).unwrap(), b"text");
        assert!(key.open_bytes("other", &sealed).is_err());
        assert!(SymmetricKey::random().open_bytes("purpose", &sealed).is_err());
        for length in 0..sealed.len() {
            assert!(key.open_bytes("purpose", &sealed[..length]).is_err(), "truncated to {length}");
        }
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(key.open_bytes("purpose", &changed).is_err(), "changed at {index}");
        }
    }

    #[test]
    fn parts_of_a_mac_cannot_shift() {
        let key = SymmetricKey::random();
        assert_ne!(key.mac(&[b"ab", b"c"]), key.mac(&[b"a", b"bc"]));
    }

    #[test]
    fn random_text_has_its_length_and_differs() {
        assert_eq!(random_text(36).len(), 36);
        assert_ne!(random_text(36), random_text(36));
    }
}
