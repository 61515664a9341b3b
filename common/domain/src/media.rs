//! Pictures and fonts: their type follows from their own bytes. Only complete files are accepted: none is cut off, and
//! none has anything after the end, where something else could hide. What a picture shows is not examined.

use serde::{Deserialize, Serialize};

/// The most bytes of a picture or a font.
pub const MOST_BYTES: usize = 256 << 10;
/// The most pixels of a picture on a side.
pub const MOST_SIDE: u32 = 4096;

const TOO_LONG: &str = "must be at most 256 KiB";
const NO_PICTURE: &str = "must be a complete PNG, JPEG or WebP picture without trailing data or animation";
const NO_FONT: &str = "must be a complete WOFF2 font with a single face";
const SIDES: &str = "must be 1 to 4096 pixels wide and high";

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";
const WOFF2: &[u8] = b"wOF2";
/// The length of the header of a WOFF2 font (WOFF 2.0, section 4.1).
const WOFF2_HEADER: usize = 48;
/// Outlines of TrueType and of CFF. Collections of several faces are not among them.
const FLAVOURS: [&[u8]; 2] = [&[0, 1, 0, 0], b"OTTO"];

/// The type of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureType {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP.
    Webp,
}

impl PictureType {
    /// Returns its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
        }
    }
}

/// The media type of fonts.
pub const FONT_TYPE: &str = "font/woff2";

/// A picture, whose content is stored beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// The SHA-256 of the content, in hexadecimal digits.
    pub digest: String,
    /// The type of the picture.
    pub picture_type: PictureType,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
}

/// A font, whose content is stored beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Font {
    /// The SHA-256 of the content, in hexadecimal digits.
    pub digest: String,
}

impl Picture {
    /// Reads a picture with this digest and content.
    ///
    /// # Errors
    /// The rule that the content breaks.
    pub fn read(digest: String, content: &[u8]) -> Result<Self, &'static str> {
        check_length(content)?;
        let (picture_type, [width, height]) = measured(content).ok_or(NO_PICTURE)?;
        if [width, height].iter().all(|side| (1..=MOST_SIDE).contains(side)) {
            Ok(Self { digest, picture_type, width, height })
        } else {
            Err(SIDES)
        }
    }
}

impl Font {
    /// Reads a font with this digest and content.
    ///
    /// # Errors
    /// The rule that the content breaks.
    pub fn read(digest: String, content: &[u8]) -> Result<Self, &'static str> {
        check_length(content)?;
        if is_font(content) { Ok(Self { digest }) } else { Err(NO_FONT) }
    }
}

/// Returns the media type of a picture or a font, by its first bytes.
pub fn media_type(content: &[u8]) -> Option<&'static str> {
    if content.starts_with(WOFF2) {
        return Some(FONT_TYPE);
    }
    picture_type(content).map(PictureType::media_type)
}

fn check_length(content: &[u8]) -> Result<(), &'static str> {
    if content.len() <= MOST_BYTES { Ok(()) } else { Err(TOO_LONG) }
}

fn picture_type(content: &[u8]) -> Option<PictureType> {
    if content.starts_with(PNG) {
        return Some(PictureType::Png);
    }
    if content.starts_with(JPEG) {
        return Some(PictureType::Jpeg);
    }
    let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
    is_webp.then_some(PictureType::Webp)
}

/// Returns the type of a picture, its width and height; `None` if it is incomplete, animated, or not a picture.
fn measured(content: &[u8]) -> Option<(PictureType, [u32; 2])> {
    let picture_type = picture_type(content)?;
    let measure = match picture_type {
        PictureType::Png => png,
        PictureType::Jpeg => jpeg,
        PictureType::Webp => webp,
    };
    Some((picture_type, measure(content)?))
}

/// Returns the sides of a PNG picture, chunk by chunk (PNG, section 5.3).
fn png(content: &[u8]) -> Option<[u32; 2]> {
    let mut rest = content.strip_prefix(PNG)?;
    let (mut sides, mut has_data) = (None, false);
    loop {
        let (length, after) = rest.split_first_chunk()?;
        let (kind, after) = after.split_first_chunk::<4>()?;
        let (data, after) = after.split_at_checked(u32::from_be_bytes(*length).try_into().ok()?)?;
        // A checksum follows.
        (_, rest) = after.split_first_chunk::<4>()?;
        match kind {
            b"IHDR" if data.len() == 13 => once(&mut sides, [big(data, 0)?, big(data, 4)?])?,
            b"IHDR" | b"acTL" => return None,
            b"IEND" => return sides.filter(|_| has_data && data.is_empty() && rest.is_empty()),
            _ => has_data |= sides.is_some() && kind == b"IDAT",
        }
    }
}

/// Returns the sides of a JPEG picture, segment by segment (ITU-T T.81, annex B).
fn jpeg(content: &[u8]) -> Option<[u32; 2]> {
    let mut rest = content.strip_prefix(b"\xff\xd8")?;
    let (mut sides, mut has_scan) = (None, false);
    loop {
        rest = rest.strip_prefix(b"\xff")?;
        let (marker, after) = rest.split_first()?;
        match marker {
            // Any number of fill bytes may stand before a marker.
            0xff => continue,
            0xd9 => return sides.filter(|_| has_scan && after.is_empty()),
            // Browsers show only lossy frames with Huffman codes, sequential and progressive.
            0x00..=0x01 | 0xc3 | 0xc5..=0xcf | 0xd0..=0xd8 => return None,
            0xda if sides.is_none() => return None,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(*after.first_chunk()?));
        let (segment, after) = after.split_at_checked(length).filter(|_| length >= 2)?;
        if (0xc0..=0xc2).contains(marker) {
            let side = |at: usize| Some(u32::from(u16::from_be_bytes(*segment.get(at..)?.first_chunk()?)));
            once(&mut sides, [side(5)?, side(3)?])?;
        }
        has_scan |= *marker == 0xda;
        rest = if *marker == 0xda { after_scan(after)? } else { after };
    }
}

/// Returns what follows the coded data of a scan: a marker that is neither a byte of that data nor a restart.
fn after_scan(data: &[u8]) -> Option<&[u8]> {
    let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xd0..=0xd7);
    data.windows(2).position(is_marker).map(|at| &data[at..])
}

/// Returns the sides of a WebP picture, chunk by chunk (RFC 9649, section 2).
fn webp(content: &[u8]) -> Option<[u32; 2]> {
    let size = u32::from_le_bytes(*content.get(4..)?.first_chunk()?);
    let mut rest = content.get(12..).filter(|_| usize::try_from(size).is_ok_and(|size| size + 8 == content.len()))?;
    let (mut canvas, mut image) = (None, None);
    while !rest.is_empty() {
        let (kind, after) = rest.split_first_chunk::<4>()?;
        let (length, after) = after.split_first_chunk()?;
        let (data, after) = after.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
        match kind {
            b"VP8X" => once(&mut canvas, [little(data, 4)? + 1, little(data, 7)? + 1])?,
            b"ANIM" | b"ANMF" => return None,
            b"VP8 " => once(&mut image, lossy(data)?)?,
            b"VP8L" => once(&mut image, lossless(data)?)?,
            _ => {}
        }
        // Chunks begin at even offsets.
        rest = after.get(data.len() % 2..)?;
    }
    image.filter(|sides| canvas.is_none_or(|canvas| canvas == *sides))
}

/// Notes the sides, which a picture may state only once: readers differ in which of two they believe.
fn once(noted: &mut Option<[u32; 2]>, sides: [u32; 2]) -> Option<()> {
    noted.replace(sides).is_none().then_some(())
}

/// Returns the sides of a key frame (RFC 6386, section 9.1).
fn lossy(data: &[u8]) -> Option<[u32; 2]> {
    let side = |at: usize| Some(u32::from(u16::from_le_bytes(*data.get(at..)?.first_chunk()?) & 0x3fff));
    if data.get(3..6)? == b"\x9d\x01\x2a" { Some([side(6)?, side(8)?]) } else { None }
}

/// Returns the sides of a lossless picture (RFC 9649, section 3.4).
fn lossless(data: &[u8]) -> Option<[u32; 2]> {
    let bits = u32::from_le_bytes(*data.strip_prefix(b"\x2f")?.first_chunk()?);
    Some([(bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1])
}

fn is_font(content: &[u8]) -> bool {
    let Some(header) = content.get(..WOFF2_HEADER).filter(|header| header.starts_with(WOFF2)) else { return false };
    let is_as_long = big(header, 8).is_some_and(|length| usize::try_from(length) == Ok(content.len()));
    FLAVOURS.contains(&&header[4..8]) && is_as_long && header[12..14] != [0, 0]
}

fn big(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// Returns a number of three bytes, little-endian.
fn little(data: &[u8], at: usize) -> Option<u32> {
    let [low, middle, high] = *data.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes([low, middle, high, 0]))
}

#[cfg(test)]
mod tests;
