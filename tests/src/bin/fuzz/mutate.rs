//! Mutates bytes in ways in which text is likely to go wrong.

use crate::random::Random;

/// Numbers at the limits of types.
const NUMBERS: [&str; 16] = [
    "0",
    "-0",
    "-1",
    "1e3",
    "0.5",
    "1e400",
    "127",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775809",
    "18446744073709551616",
    "00",
];

/// Pieces that parsers trip over.
const PIECES: [&[u8]; 30] = [
    b"\0",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    "\u{202e}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{1f980}".as_bytes(),
    "e\u{301}".as_bytes(),
    "\u{df}".as_bytes(),
    "\u{130}".as_bytes(),
    b"\\u0000",
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\",
    b"\"",
    b"'",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b",",
    b":",
    b"&",
    b"=",
    b"%00",
    b"%",
    b"%ff",
    b"+",
    b".",
    b"\r\n",
];

/// Openings that are repeated, to nest deeply.
const OPENINGS: [&[u8]; 5] = [b"[", b"{\"a\":", b"[[[[[[[[", b"{\"request\":{\"", b"("];

/// Changes an input in one place.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[String], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(13) {
        0 => change(input, at, |byte, random| byte ^ (1 << random.below(8)), random),
        1 => change(input, at, |_, random| random.byte(), random),
        2 => change(input, at, |byte, random| byte.wrapping_add(if random.once_in(2) { 1 } else { 255 }), random),
        3 => {
            let bytes: Vec<u8> = (0..=random.below(8)).map(|_| random.byte()).collect();
            insert(input, at, &bytes);
        }
        4 => drop(input.drain(random.part(input.len(), 16))),
        5 => input.truncate(at),
        6 => {
            let part = input[random.part(input.len(), 64)].to_vec();
            let most = if random.once_in(20) { 500 } else { 4 };
            insert(input, at, &part.repeat(1 + random.below(most)));
        }
        7 => insert(input, at, &other[random.part(other.len(), 64)]),
        8 => {
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        9 => number(input, at, random),
        10 => insert(input, at, random.pick(&PIECES)),
        11 => insert(input, at, &random.pick(&OPENINGS).repeat(1 + random.below(200))),
        _ if words.is_empty() => change(input, at, |_, random| random.byte(), random),
        _ => {
            let word = &words[random.below(words.len())];
            let replaced = if random.once_in(2) { at..at } else { word_at(input, at) };
            drop(input.splice(replaced, word.bytes()));
        }
    }
}

fn change(input: &mut [u8], at: usize, to: impl Fn(u8, &mut Random) -> u8, random: &mut Random) {
    if let Some(byte) = input.get_mut(at) {
        *byte = to(*byte, random);
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    drop(input.splice(at..at, bytes.iter().copied()));
}

/// Replaces the next number by one at a limit of a type.
fn number(input: &mut Vec<u8>, at: usize, random: &mut Random) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let begin = input[at..].iter().position(is_digit).map_or(at, |offset| at + offset);
    let length = input[begin..].iter().take_while(|byte| is_digit(byte)).count();
    drop(input.splice(begin..begin + length, random.pick(&NUMBERS).bytes()));
}

/// Returns the range of the word at a place.
fn word_at(input: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let begin = at - input[..at].iter().rev().take_while(|byte| is_part(byte)).count();
    begin..at + input[at..].iter().take_while(|byte| is_part(byte)).count()
}
