//! Images for tests, made with the encoders of the formats.

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

/// Returns a PNG of this size.
pub(crate) fn png_image(width: u32, height: u32) -> Vec<u8> {
    encode(width, height, ImageFormat::Png)
}

/// Returns an image of this size in each format that models take, by media type.
pub(crate) fn sample_images(width: u32, height: u32) -> Vec<(&'static str, Vec<u8>)> {
    [
        ("image/png", ImageFormat::Png),
        ("image/jpeg", ImageFormat::Jpeg),
        ("image/gif", ImageFormat::Gif),
        ("image/webp", ImageFormat::WebP),
    ]
    .map(|(name, format)| (name, encode(width, height, format)))
    .into()
}

fn encode(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let pixel = |x: u32, y: u32| Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, 40]);
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, pixel)).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}
