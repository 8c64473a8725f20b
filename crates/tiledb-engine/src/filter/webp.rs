//! WebP images (specification: "WebP Filter").
//!
//! Metadata: `u32 images, u32 bytes` of each. Data: the images. A tile is one chunk and, in practice, one image: its
//! height is the first dimension's extent, its width the second's divided by the bytes of a pixel. The scan lines are
//! the cells in stored order, red before blue or the reverse, opacity last if it exists.
//!
//! Lossy images decode to exactly the bytes that libwebp decodes: colours between samples are interpolated in the same
//! way. An image of a few bytes may claim to be huge, also in a second header, so sizes are compared with the tile's
//! size before the image is decoded.
//!
//! Only lossless images are written. Unlike those of libtiledb, they keep the colours of pixels that nobody sees.

use std::borrow::Cow;
use std::io;

use image_webp::{ColorType, WebPDecoder, WebPEncoder};

use super::parts::{expect_full, for_each_part, take_front};
use crate::error::{Error, Result};
use crate::format::cursor::Cursor;
use crate::format::filter_list::{ImageSetting, PixelFormat};

const FILTER: &str = "webp";
/// Size of `RIFF`, a size, and `WEBP` before the chunks of an image.
const HEADER_BYTES: usize = 12;
/// The most lines of an image, and the most pixels of a line, that libwebp takes.
const MOST_PIXELS: u32 = 16383;

/// Decodes into exactly `out`.
pub(super) fn decode_into(
    format: PixelFormat,
    metadata: &mut Cursor<'_>,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let mut rest = out;
    for_each_part(metadata, input, FILTER, |image| {
        let mut decoder = WebPDecoder::new(io::Cursor::new(image)).map_err(broken)?;
        let (width, height) = decoder.dimensions();
        check_frame(image, width, height)?;
        if decoder.is_animated() {
            return Err(Error::corrupt("webp: the image is animated"));
        }
        let line_bytes = u64::from(width) * u64::from(format.bytes());
        let bytes = usize::try_from(line_bytes.saturating_mul(u64::from(height)))?;
        let out = take_front(&mut rest, bytes, FILTER)?;
        let has_alpha = decoder.has_alpha();
        if format == PixelFormat::Rgba && has_alpha || format == PixelFormat::Rgb && !has_alpha {
            return decoder.read_image(out).map_err(broken);
        }
        let mut pixels = vec![0; decoder.output_buffer_size().unwrap_or_default()];
        decoder.read_image(&mut pixels).map_err(broken)?;
        let found = if has_alpha { 4 } else { 3 };
        rearrange(format, pixels.chunks_exact(found), out);
        Ok(())
    })?;
    expect_full(rest, FILTER)
}

/// Appends a lossless image of `cells` to `out`.
pub(super) fn encode(
    format: PixelFormat,
    image: ImageSetting,
    cells: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let (lines, line_bytes) = (u32::from(image.lines), u32::from(image.line_bytes));
    let pixel = u32::from(format.bytes());
    let whole = line_bytes.checked_rem(pixel) == Some(0);
    let width = line_bytes.checked_div(pixel).unwrap_or_default();
    let size = u64::from(lines) * u64::from(line_bytes);
    if !whole || size != cells.len() as u64 || lines.max(width) > MOST_PIXELS {
        return Err(Error::invalid(format!(
            "webp: {lines} lines of {line_bytes} bytes aren't an {} image of a tile of {} bytes",
            format.name(),
            cells.len()
        )));
    }
    let (colours, pixels) = match format {
        PixelFormat::Rgb => (ColorType::Rgb8, Cow::Borrowed(cells)),
        PixelFormat::Bgr => (ColorType::Rgb8, red_first(cells, 3)),
        PixelFormat::Rgba => (ColorType::Rgba8, Cow::Borrowed(cells)),
        PixelFormat::Bgra => (ColorType::Rgba8, red_first(cells, 4)),
    };
    let encoder = WebPEncoder::new(out);
    let encoded = encoder.encode(&pixels, width, lines, colours);
    encoded.map_err(|e| Error::internal("webp: the image cannot be encoded").with_source(e))
}

/// Swaps blue, which comes first, with red.
fn red_first(cells: &[u8], pixel_bytes: usize) -> Cow<'_, [u8]> {
    let mut pixels = cells.to_vec();
    for pixel in pixels.chunks_exact_mut(pixel_bytes) {
        if let [blue, _, red, ..] = pixel {
            std::mem::swap(blue, red);
        }
    }
    Cow::Owned(pixels)
}

fn broken(source: image_webp::DecodingError) -> Error {
    Error::corrupt("webp: the image cannot be decoded").with_source(source)
}

/// Converts pixels of red, green, blue and possibly opacity to `format`.
fn rearrange<'a>(format: PixelFormat, pixels: impl Iterator<Item = &'a [u8]>, out: &mut [u8]) {
    let colours = |pixel: &[u8]| match *pixel {
        [red, green, blue] => [red, green, blue, u8::MAX],
        [red, green, blue, opacity] => [red, green, blue, opacity],
        _ => [0; 4],
    };
    let pixels = pixels.map(colours);
    match format {
        PixelFormat::Rgb => {
            let pixels_out = out.as_chunks_mut::<3>().0.iter_mut();
            pixels_out
                .zip(pixels)
                .for_each(|(out, [r, g, b, _])| *out = [r, g, b]);
        }
        PixelFormat::Bgr => {
            let pixels_out = out.as_chunks_mut::<3>().0.iter_mut();
            pixels_out
                .zip(pixels)
                .for_each(|(out, [r, g, b, _])| *out = [b, g, r]);
        }
        PixelFormat::Rgba => {
            let pixels_out = out.as_chunks_mut::<4>().0.iter_mut();
            pixels_out.zip(pixels).for_each(|(out, rgba)| *out = rgba);
        }
        PixelFormat::Bgra => {
            let pixels_out = out.as_chunks_mut::<4>().0.iter_mut();
            pixels_out
                .zip(pixels)
                .for_each(|(out, [r, g, b, a])| *out = [b, g, r, a]);
        }
    }
}

/// Checks that the frame inside is as large as the image, because memory is allocated by the frame's size.
fn check_frame(image: &[u8], width: u32, height: u32) -> Result<()> {
    let mut chunks = Cursor::new(image.get(HEADER_BYTES..).unwrap_or_default(), FILTER);
    while chunks.remaining() > 0 {
        let name: [u8; 4] = chunks.array("name of a chunk")?;
        let bytes = chunks.u32("size of a chunk")?;
        let content = chunks.bytes_u64(u64::from(bytes), "chunk of an image")?;
        // Chunks of odd size are padded with a byte, which some writers omit at the end.
        if bytes % 2 == 1 && chunks.remaining() > 0 {
            chunks.u8("padding of a chunk")?;
        }
        if &name != b"VP8 " {
            continue;
        }
        let mut frame = Cursor::new(content, FILTER);
        frame.bytes(6, "start of a frame")?;
        // The two highest bits are a scaling hint.
        let found = [frame.u16("width")? & 0x3FFF, frame.u16("height")? & 0x3FFF];
        if found.map(u32::from) != [width, height] {
            return Err(Error::corrupt(format!(
                "webp: the frame has {} by {} pixels, the image {width} by {height}",
                found[0], found[1]
            )));
        }
    }
    Ok(())
}
