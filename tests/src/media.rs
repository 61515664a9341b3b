//! Pictures and fonts of the smallest size.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Returns a PNG picture in one shade of grey, which a browser can show.
pub fn png(width: u32, height: u32, grey: u8) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 0, 0, 0, 0]].concat();
    // Each row begins with its filter.
    let row = [&[0][..], &vec![grey; width as usize]].concat();
    let pixels = row.repeat(height as usize);
    [b"\x89PNG\r\n\x1a\n", &chunk(b"IHDR", &header)[..], &chunk(b"IDAT", &stored(&pixels)), &chunk(b"IEND", b"")]
        .concat()
}

/// Returns bytes in the zlib format without compression (RFC 1950, RFC 1951).
fn stored(content: &[u8]) -> Vec<u8> {
    let mut text = vec![0x78, 0x01];
    let last = content.len().div_ceil(0xffff) - 1;
    for (at, block) in content.chunks(0xffff).enumerate() {
        let length = u16::try_from(block.len()).expect("it is at most so long");
        text.push(u8::from(at == last));
        text.extend(length.to_le_bytes());
        text.extend((!length).to_le_bytes());
        text.extend(block);
    }
    let (one, two) = content.iter().fold((1_u32, 0), |(one, two), byte| {
        let one = (one + u32::from(*byte)) % 65521;
        (one, (two + one) % 65521)
    });
    text.extend((two << 16 | one).to_be_bytes());
    text
}

fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).expect("it is short").to_be_bytes();
    let checked = [kind, data].concat();
    [&length[..], &checked, &checksum(&checked).to_be_bytes()].concat()
}

/// Returns the checksum of a chunk (PNG, annex D).
fn checksum(data: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !data.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// Returns a WebP picture of one pixel.
pub fn webp() -> Vec<u8> {
    STANDARD.decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==").expect("it is base64")
}

/// Returns bytes with the segments of a JPEG picture of 16 by 8 pixels.
pub fn jpeg() -> Vec<u8> {
    let frame = b"\xff\xc0\x00\x0b\x08\x00\x08\x00\x10\x01\x01\x11\x00";
    let scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x12\x34";
    [b"\xff\xd8", &frame[..], scan, b"\xff\xd9"].concat()
}

/// Returns bytes with the header of a WOFF2 font.
pub fn woff2() -> Vec<u8> {
    [b"wOF2OTTO", &60_u32.to_be_bytes()[..], &[0, 1], &[0; 46]].concat()
}

/// Returns bytes as JSON represents them.
pub fn text(content: &[u8]) -> String {
    STANDARD.encode(content)
}
