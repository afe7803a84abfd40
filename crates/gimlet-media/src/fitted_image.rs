//! An image that fits a request: unchanged if it is within the limits, otherwise its first frame, scaled and encoded
//! anew.
//!
//! Sizes are checked by the header before anything is decoded, and one image is decoded at a time, so that many large
//! ones never take their memory together.

use std::fmt;
use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader};

use crate::ImageFormat;

/// Memory for decoding one image.
const MAX_DECODED_BYTES: u64 = 192 << 20;
/// Qualities that are tried until the result is small enough.
const JPEG_QUALITIES: [u8; 4] = [85, 70, 55, 40];

static DECODING: Mutex<()> = Mutex::new(());

/// Limits of an image that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Longest side in pixels.
    pub max_side: u32,
    /// Size of the file, which larger images are compressed to where possible.
    pub max_bytes: usize,
}

impl ImageLimits {
    /// Size above which an image is compressed further.
    pub const MAX_BYTES: usize = 500_000;
    /// Largest file that is read at all.
    pub const MAX_FILE_BYTES: u64 = 48 << 20;

    /// Returns the limits for a model that uses images with this longest side.
    pub fn for_side(max_side: u32) -> Self {
        Self { max_side, max_bytes: Self::MAX_BYTES }
    }
}

/// Width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelSize {
    pub width: u32,
    pub height: u32,
}

impl PixelSize {
    fn long_side(self) -> u32 {
        self.width.max(self.height)
    }

    /// Returns the size with the longest side reduced to `max_side`, in the same proportions.
    fn scaled_to(self, max_side: u32) -> Self {
        if self.long_side() <= max_side {
            return self;
        }
        let scale = |side: u32| {
            let scaled =
                (u64::from(side) * u64::from(max_side) + u64::from(self.long_side()) / 2) / u64::from(self.long_side());
            u32::try_from(scaled).unwrap_or(max_side).max(1)
        };
        Self { width: scale(self.width), height: scale(self.height) }
    }
}

impl fmt::Display for PixelSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.width, self.height)
    }
}

/// Reason why an image cannot be sent, as one clause without its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageFault {
    #[error("it is empty")]
    Empty,
    #[error("it is neither PNG, JPEG, GIF nor WebP")]
    UnknownFormat,
    #[error("the {format} image is damaged or cut off ({reason})")]
    Damaged { format: ImageFormat, reason: String },
    #[error(
        "the {format} image has {size} pixels, which is more than can be decoded; scale it down first, for example with ImageMagick's `convert -resize {max_side}x{max_side}`"
    )]
    TooManyPixels { format: ImageFormat, size: PixelSize, max_side: u32 },
}

/// An image within the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedImage {
    pub format: ImageFormat,
    pub bytes: Vec<u8>,
    /// Format and size before it was fitted.
    pub original_format: ImageFormat,
    pub original_size: PixelSize,
    pub size: PixelSize,
}

impl FittedImage {
    /// Fits an image into the limits. Takes up to seconds for the largest: call it where blocking is allowed.
    pub fn fit(bytes: Vec<u8>, limits: ImageLimits) -> Result<Self, ImageFault> {
        if bytes.is_empty() {
            return Err(ImageFault::Empty);
        }
        let format = ImageFormat::detect(&bytes).ok_or(ImageFault::UnknownFormat)?;
        let _one_at_a_time = DECODING.lock().unwrap_or_else(PoisonError::into_inner);
        let decoded = DecodedImage::decode(&bytes, format, limits)?;
        let size = decoded.size();
        if bytes.len() <= limits.max_bytes && size.long_side() <= limits.max_side {
            return Ok(Self { format, bytes, original_format: format, original_size: size, size });
        }
        drop(bytes);
        let fitted = decoded.scale_down(limits.max_side);
        let shown = PixelSize { width: fitted.width(), height: fitted.height() };
        let (encoded_format, bytes) = encode_within(&fitted, format, limits.max_bytes)
            .map_err(|error| ImageFault::Damaged { format, reason: error.to_string() })?;
        Ok(Self { format: encoded_format, bytes, original_format: format, original_size: size, size: shown })
    }

    /// Returns true if the image was scaled.
    pub fn is_scaled(&self) -> bool {
        self.size != self.original_size
    }
}

/// Pixels of an image, before its orientation is applied.
struct DecodedImage {
    pixels: DynamicImage,
    orientation: Orientation,
}

impl DecodedImage {
    fn decode(bytes: &[u8], format: ImageFormat, limits: ImageLimits) -> Result<Self, ImageFault> {
        let damaged = |error: image::ImageError| ImageFault::Damaged { format, reason: first_line(&error.to_string()) };
        let mut reader = ImageReader::with_format(Cursor::new(bytes), format.decoder_format());
        let mut memory = image::Limits::no_limits();
        memory.max_alloc = Some(MAX_DECODED_BYTES);
        reader.limits(memory);
        let mut decoder = reader.into_decoder().map_err(damaged)?;
        let (width, height) = decoder.dimensions();
        if decoding_cost(bytes, format, &decoder) > MAX_DECODED_BYTES {
            let size = PixelSize { width, height };
            return Err(ImageFault::TooManyPixels { format, size, max_side: limits.max_side });
        }
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let pixels = DynamicImage::from_decoder(decoder).map_err(damaged)?;
        Ok(Self { pixels, orientation })
    }

    /// Returns the size as it is shown.
    fn size(&self) -> PixelSize {
        let (width, height) = (self.pixels.width(), self.pixels.height());
        match self.orientation {
            Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH => PixelSize { width: height, height: width },
            Orientation::NoTransforms
            | Orientation::Rotate180
            | Orientation::FlipHorizontal
            | Orientation::FlipVertical => PixelSize { width, height },
        }
    }

    /// Returns the image with at most this long a side, upright, with 8 bits per channel.
    fn scale_down(self, max_side: u32) -> DynamicImage {
        let Self { mut pixels, orientation } = self;
        let size = PixelSize { width: pixels.width(), height: pixels.height() };
        let target = size.scaled_to(max_side);
        if target != size {
            // Averaging whole blocks first is many times faster than filtering all pixels, and looks the same.
            let coarse = size.scaled_to(max_side.saturating_mul(2));
            if coarse != size {
                pixels = pixels.thumbnail_exact(coarse.width, coarse.height);
            }
            pixels = to_eight_bits(pixels).resize_exact(target.width, target.height, FilterType::CatmullRom);
        }
        let mut pixels = to_eight_bits(pixels);
        pixels.apply_orientation(orientation);
        pixels
    }
}

/// Returns an upper estimate of the memory that decoding takes.
fn decoding_cost(bytes: &[u8], format: ImageFormat, decoder: &impl ImageDecoder) -> u64 {
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    match format {
        ImageFormat::Png | ImageFormat::Gif => decoder.total_bytes(),
        // A progressive file is kept as coefficients until its end.
        ImageFormat::Jpeg if is_progressive(bytes) => decoder.total_bytes().saturating_add(pixels.saturating_mul(6)),
        ImageFormat::Jpeg => decoder.total_bytes(),
        // Planes of brightness and colour stand beside the result.
        ImageFormat::WebP => decoder.total_bytes().saturating_add(pixels.saturating_mul(2)),
    }
}

/// Returns true if a JPEG has the frame header of a progressive one.
fn is_progressive(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xFF, marker]) = bytes.get(at..at + 2) {
        match marker {
            0xC2 | 0xC6 | 0xCA | 0xCE => return true,
            // Another frame header, or pixels.
            0xC0 | 0xC1 | 0xC3 | 0xC5 | 0xC7 | 0xC9 | 0xCB | 0xCD | 0xCF | 0xDA => return false,
            0xFF => at += 1,
            0x01 | 0xD0..=0xD9 => at += 2,
            _ => match bytes.get(at + 2..at + 4) {
                Some(length) => at += 2 + usize::from(u16::from_be_bytes([length[0], length[1]])),
                None => return false,
            },
        }
    }
    false
}

fn to_eight_bits(pixels: DynamicImage) -> DynamicImage {
    match pixels.color() {
        image::ColorType::L8 | image::ColorType::La8 | image::ColorType::Rgb8 | image::ColorType::Rgba8 => pixels,
        image::ColorType::L16 => DynamicImage::ImageLuma8(pixels.into_luma8()),
        color if color.has_alpha() => DynamicImage::ImageRgba8(pixels.into_rgba8()),
        _ => DynamicImage::ImageRgb8(pixels.into_rgb8()),
    }
}

/// Encodes an image: without loss if it was and the result is small enough, otherwise as JPEG.
fn encode_within(
    pixels: &DynamicImage,
    original: ImageFormat,
    max_bytes: usize,
) -> image::ImageResult<(ImageFormat, Vec<u8>)> {
    let is_photo = match original {
        ImageFormat::Jpeg => true,
        ImageFormat::WebP => !pixels.color().has_alpha(),
        ImageFormat::Png | ImageFormat::Gif => false,
    };
    if !is_photo {
        let mut bytes = Vec::new();
        pixels.write_with_encoder(PngEncoder::new(&mut bytes))?;
        if bytes.len() <= max_bytes {
            return Ok((ImageFormat::Png, bytes));
        }
    }
    let opaque = on_white(pixels);
    let mut bytes = Vec::new();
    for quality in JPEG_QUALITIES {
        bytes.clear();
        opaque.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, quality))?;
        if bytes.len() <= max_bytes {
            break;
        }
    }
    Ok((ImageFormat::Jpeg, bytes))
}

/// Returns the image on a white ground: JPEG knows no transparency.
fn on_white(pixels: &DynamicImage) -> DynamicImage {
    if !pixels.color().has_alpha() {
        return match pixels.color().has_color() {
            true => DynamicImage::ImageRgb8(pixels.to_rgb8()),
            false => DynamicImage::ImageLuma8(pixels.to_luma8()),
        };
    }
    let source = pixels.to_rgba8();
    let mut opaque = image::RgbImage::new(source.width(), source.height());
    for (to, from) in opaque.pixels_mut().zip(source.pixels()) {
        let alpha = u32::from(from.0[3]);
        for channel in 0..3 {
            let mixed = (u32::from(from.0[channel]) * alpha + 255 * (255 - alpha) + 127) / 255;
            to.0[channel] = u8::try_from(mixed).unwrap_or(u8::MAX);
        }
    }
    DynamicImage::ImageRgb8(opaque)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(160).collect()
}

#[cfg(test)]
#[path = "fitted_image_tests.rs"]
mod fitted_image_tests;
