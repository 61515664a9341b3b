use super::*;

fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length[..], kind, data, b"\0\0\0\0"].concat()
}

fn ihdr(width: u32, height: u32) -> Vec<u8> {
    chunk(b"IHDR", &[&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 6, 0, 0, 0]].concat())
}

fn png(chunks: &[Vec<u8>]) -> Vec<u8> {
    [PNG, &chunks.concat()].concat()
}

fn a_png(width: u32, height: u32) -> Vec<u8> {
    png(&[ihdr(width, height), chunk(b"IDAT", b"pixels"), chunk(b"IEND", b"")])
}

fn jpeg(frame: u8) -> Vec<u8> {
    let comment = b"\xff\xfe\x00\x06\xff\xd9\xff\xd9";
    let frame = [b"\xff\xff", &[frame][..], b"\x00\x0b\x08\x00\x30\x00\xf0\x01\x01\x11\x00"].concat();
    let scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x12\xff\x00\x34\xff\xd0\x56";
    [b"\xff\xd8", &comment[..], &frame, scan, scan, b"\xff\xd9"].concat()
}

fn webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (kind, data) in chunks {
        body.extend([&kind[..], &u32::try_from(data.len()).unwrap().to_le_bytes(), data].concat());
        body.extend(vec![0; data.len() % 2]);
    }
    [b"RIFF", &u32::try_from(body.len()).unwrap().to_le_bytes()[..], &body].concat()
}

const LOSSY: (&[u8; 4], &[u8]) = (b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a\xf0\x00\x30\x40\x07");
const LOSSLESS: (&[u8; 4], &[u8]) = (b"VP8L", b"\x2f\xef\xc0\x0b\x00");
const CANVAS: (&[u8; 4], &[u8]) = (b"VP8X", b"\x10\x00\x00\x00\xef\x00\x00\x2f\x00\x00");

fn font(flavour: &[u8], length: u32) -> Vec<u8> {
    [WOFF2, flavour, &length.to_be_bytes(), &[0, 1], &[0; 46]].concat()
}

fn read(content: &[u8]) -> Result<(PictureType, [u32; 2]), &'static str> {
    Picture::read(String::new(), content).map(|it| (it.picture_type, [it.width, it.height]))
}

#[test]
fn a_picture_says_what_it_is_and_how_large() {
    let sides = [240, 48];
    assert_eq!(read(&a_png(240, 48)), Ok((PictureType::Png, sides)));
    for frame in [0xc0, 0xc1, 0xc2] {
        assert_eq!(read(&jpeg(frame)), Ok((PictureType::Jpeg, sides)), "{frame:x}");
    }
    for chunks in [&[LOSSY][..], &[LOSSLESS], &[CANVAS, (b"ALPH", b"x"), LOSSY]] {
        assert_eq!(read(&webp(chunks)), Ok((PictureType::Webp, sides)), "{chunks:?}");
    }
    for (content, kind) in [(a_png(1, 1), "image/png"), (jpeg(0xc0), "image/jpeg"), (webp(&[LOSSY]), "image/webp")] {
        assert_eq!(media_type(&content), Some(kind));
    }
    assert_eq!(picture_type(b"\xff\xd8\xff\xe0\x00\x00"), Some(PictureType::Jpeg));
    assert!(
        read(&[&jpeg(0xc0)[..2], b"\xff\xe0\x00\x00", &jpeg(0xc0)[2..]].concat()).is_err(),
        "a segment has a length"
    );
    assert!(read(&[&jpeg(0xc0)[..2], b"\xff\xe0\x00\x02", &jpeg(0xc0)[2..]].concat()).is_ok());
    for other in [&b"<svg>"[..], b"RIFF\x04\0\0\0WAVE", b"LIST\x04\0\0\0WEBP"] {
        assert_eq!(media_type(other), None, "{other:?}");
    }
}

#[test]
fn what_is_cut_off_or_followed_by_something_is_no_picture() {
    for content in [a_png(240, 48), jpeg(0xc0), webp(&[CANVAS, LOSSY]), webp(&[LOSSLESS])] {
        for end in 0..content.len() {
            assert_eq!(read(&content[..end]), Err(NO_PICTURE), "{end} of {content:?}");
        }
        assert_eq!(read(&[&content[..], b"\0"].concat()), Err(NO_PICTURE), "{content:?}");
    }
}

#[test]
fn what_lacks_its_image_or_moves_is_refused() {
    let (data, end) = (chunk(b"IDAT", b"x"), chunk(b"IEND", b""));
    let pngs = [
        vec![ihdr(1, 1), end.clone()],
        vec![data.clone(), end.clone()],
        vec![ihdr(1, 1), ihdr(1, 1), data.clone(), end.clone()],
        vec![ihdr(1, 1), chunk(b"acTL", b"12345678"), data.clone(), end.clone()],
        vec![chunk(b"IHDR", b"short"), data.clone(), end.clone()],
        vec![chunk(b"IHDR", b"\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0+"), data.clone(), end.clone()],
        vec![ihdr(1, 1), chunk(b"tEXt", b"no pixels"), end],
        vec![ihdr(1, 1), data, chunk(b"IEND", b"more")],
    ];
    for chunks in pngs {
        assert_eq!(read(&png(&chunks)), Err(NO_PICTURE), "{chunks:?}");
    }
    for frame in [0xc3, 0xc4, 0xc5, 0xc8, 0xc9, 0xcc, 0xcf, 0xd0, 0x01] {
        assert_eq!(read(&jpeg(frame)), Err(NO_PICTURE), "{frame:x}");
    }
    let webps: [&[_]; 9] = [
        &[],
        &[CANVAS],
        &[CANVAS, (b"ANIM", b"123456"), LOSSY],
        &[(b"VP8 ", b"\0\0\0\0\0\0\0\0\0\0")],
        &[(b"VP8L", b"x1234")],
        &[CANVAS, CANVAS, LOSSY],
        &[LOSSY, LOSSY],
        &[CANVAS, LOSSY, LOSSLESS],
        &[(b"VP8X", b"\x10\x00\x00\x00\xee\x00\x00\x2f\x00\x00"), LOSSY],
    ];
    for chunks in webps {
        assert_eq!(read(&webp(chunks)), Err(NO_PICTURE), "{chunks:?}");
    }
    for content in
        [&b""[..], b"text", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"GIF89a", b"BM", &font(b"OTTO", 60)]
    {
        assert_eq!(read(content), Err(NO_PICTURE), "{content:?}");
    }
}

#[test]
fn a_jpeg_has_one_frame_before_its_scans() {
    let (whole, frame_at) = (jpeg(0xc0), 10);
    let frame_end = frame_at + 14;
    let (frame, rest) = (&whole[frame_at..frame_end], &whole[frame_end..]);
    let (scans, end) = rest.split_at(rest.len() - 2);
    let begin = &whole[..frame_at];
    assert_eq!(read(&[begin, frame, scans, end].concat()), Ok((PictureType::Jpeg, [240, 48])));
    for parts in [
        [begin, frame, frame, scans, end],
        [begin, frame, scans, frame, end],
        [begin, scans, frame, &[], end],
        [begin, frame, &[], &[], end],
    ] {
        assert_eq!(read(&parts.concat()), Err(NO_PICTURE), "{parts:?}");
    }
    for marker in [0x00, 0x01, 0xc3, 0xc5, 0xcf, 0xd0, 0xd8] {
        let another = [&[0xff, marker], &frame[3..]].concat();
        for parts in [[begin, frame, &another, scans, end], [begin, &another, frame, scans, end]] {
            assert_eq!(read(&parts.concat()), Err(NO_PICTURE), "{marker:x}");
        }
    }
}

#[test]
fn sides_and_length_are_bounded() {
    for (width, height) in [(0, 1), (1, 0), (4097, 1), (1, 4097), (u32::MAX, u32::MAX)] {
        assert_eq!(read(&a_png(width, height)), Err(SIDES), "{width} x {height}");
    }
    assert_eq!(read(&a_png(4096, 4096)), Ok((PictureType::Png, [4096, 4096])));
    let of_length = |length: usize| {
        let rest = length - a_png(1, 1).len() - 12;
        png(&[ihdr(1, 1), chunk(b"IDAT", b"pixels"), chunk(b"tEXt", &vec![b'x'; rest]), chunk(b"IEND", b"")])
    };
    assert_eq!(of_length(MOST_BYTES).len(), MOST_BYTES);
    assert_eq!(read(&of_length(MOST_BYTES)), Ok((PictureType::Png, [1, 1])));
    assert_eq!(read(&of_length(MOST_BYTES + 1)), Err(TOO_LONG));
}

#[test]
fn a_font_is_of_one_face_and_as_long_as_it_says() {
    let read = |content: &[u8]| Font::read("d".to_owned(), content).map(|font| font.digest);
    for flavour in [&b"\0\x01\0\0"[..], b"OTTO"] {
        assert_eq!(read(&font(flavour, 60)), Ok("d".to_owned()));
    }
    assert_eq!(media_type(&font(b"OTTO", 60)), Some("font/woff2"));
    let no_tables = [&font(b"OTTO", 60)[..12], &[0; 48]].concat();
    for wrong in [font(b"ttcf", 60), font(b"OTTO", 61), font(b"OTTO", 59), no_tables, a_png(1, 1), b"wOF2".to_vec()] {
        assert_eq!(read(&wrong), Err(NO_FONT), "{wrong:?}");
    }
    for end in 0..60 {
        assert_eq!(read(&font(b"OTTO", 60)[..end]), Err(NO_FONT), "{end}");
    }
    assert_eq!(read(&vec![0; MOST_BYTES + 1]), Err(TOO_LONG));
}
