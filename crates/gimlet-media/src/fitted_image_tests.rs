//! Images of every kind and fault, made here with the encoders or byte by byte.

use image::{Rgb, RgbImage, Rgba, RgbaImage};

use super::*;

const LIMITS: ImageLimits = ImageLimits { max_side: 64, max_bytes: 20_000 };

fn encoded(image: &DynamicImage, format: image::ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn gradient(width: u32, height: u32) -> DynamicImage {
    let pixel = |x, y| Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, 90]);
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, pixel))
}

fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |_, _| Rgb([next(), next(), next()])))
}

fn size(width: u32, height: u32) -> PixelSize {
    PixelSize { width, height }
}

fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = encoded(&gradient(2, 2), image::ImageFormat::Png);
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    // The checksum of the header covers its sizes.
    let sum = crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 })
    })
}

#[test]
fn an_image_within_the_limits_keeps_its_bytes() {
    for format in [image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::Gif, image::ImageFormat::WebP]
    {
        let bytes = encoded(&gradient(64, 20), format);
        let fitted = FittedImage::fit(bytes.clone(), LIMITS).unwrap();
        assert_eq!((fitted.bytes, fitted.size), (bytes, size(64, 20)), "{format:?}");
        assert_eq!(fitted.format.decoder_format(), format);
    }
}

#[test]
fn a_larger_image_is_scaled_in_its_proportions_and_both_sizes_are_known() {
    for format in [image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::Gif, image::ImageFormat::WebP]
    {
        for (from, to) in [((100, 50), (64, 32)), ((50, 1000), (3, 64)), ((900, 1), (64, 1))] {
            let fitted = FittedImage::fit(encoded(&gradient(from.0, from.1), format), LIMITS).unwrap();
            assert_eq!((fitted.original_size, fitted.size), (size(from.0, from.1), size(to.0, to.1)), "{format:?}");
            let shown = image::load_from_memory(&fitted.bytes).unwrap();
            assert_eq!((shown.width(), shown.height()), to);
            assert!(fitted.is_scaled() && ImageFormat::detect(&fitted.bytes) == Some(fitted.format));
        }
    }
}

#[test]
fn what_takes_too_many_bytes_is_compressed_at_the_same_size() {
    let bytes = encoded(&noise(64, 64), image::ImageFormat::Png);
    let limits = ImageLimits { max_side: 64, max_bytes: 4_000 };
    assert!(bytes.len() > limits.max_bytes);
    let fitted = FittedImage::fit(bytes, limits).unwrap();
    assert_eq!((fitted.format, fitted.size), (ImageFormat::Jpeg, size(64, 64)));
    assert!(fitted.bytes.len() <= limits.max_bytes, "{}", fitted.bytes.len());
}

#[test]
fn sixteen_bits_greys_and_transparency_are_read() {
    let sixteen = DynamicImage::ImageRgba16(image::ImageBuffer::from_pixel(90, 40, Rgba([65_535, 0, 0, 65_535])));
    let fitted = FittedImage::fit(encoded(&sixteen, image::ImageFormat::Png), LIMITS).unwrap();
    assert_eq!(image::load_from_memory(&fitted.bytes).unwrap().to_rgb8().get_pixel(5, 5), &Rgb([255, 0, 0]));
    let grey = DynamicImage::ImageLuma16(image::ImageBuffer::from_pixel(90, 40, image::Luma([32_768])));
    let fitted = FittedImage::fit(encoded(&grey, image::ImageFormat::Png), LIMITS).unwrap();
    assert_eq!(fitted.size, size(64, 28));

    let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(80, 80, Rgba([0, 0, 0, 0])));
    assert_eq!(on_white(&clear).to_rgb8().get_pixel(0, 0), &Rgb([255, 255, 255]));
}

#[test]
fn of_an_animation_the_first_frame_is_scaled() {
    let frames = [Rgba([255, 0, 0, 255]), Rgba([0, 0, 255, 255])]
        .map(|color| image::Frame::new(RgbaImage::from_pixel(100, 100, color)));
    let mut bytes = Vec::new();
    image::codecs::gif::GifEncoder::new(&mut bytes).encode_frames(frames).unwrap();
    let fitted = FittedImage::fit(bytes, LIMITS).unwrap();
    let shown = image::load_from_memory(&fitted.bytes).unwrap().to_rgb8();
    assert_eq!((shown.width(), shown.get_pixel(3, 3)), (64, &Rgb([255, 0, 0])));
}

#[test]
fn a_photograph_is_turned_upright_when_it_is_encoded_anew() {
    // Orientation 6: to be turned by a quarter to the right.
    let exif = b"\xFF\xE1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let plain = encoded(&gradient(120, 60), image::ImageFormat::Jpeg);
    let bytes = [&plain[..2], exif, &plain[2..]].concat();
    let fitted = FittedImage::fit(bytes, LIMITS).unwrap();
    assert_eq!((fitted.original_size, fitted.size), (size(60, 120), size(32, 64)));
}

#[test]
fn what_is_no_image_says_so_before_memory_is_taken() {
    let whole = encoded(&noise(40, 40), image::ImageFormat::Png);
    let gif = encoded(&noise(40, 40), image::ImageFormat::Gif);
    let webp = encoded(&noise(40, 40), image::ImageFormat::WebP);
    let mut wide_gif = gif.clone();
    wide_gif[6..10].fill(0xFF);
    let cases: [(Vec<u8>, &str); 9] = [
        (Vec::new(), "it is empty"),
        (b"<html>".to_vec(), "neither PNG"),
        (whole[..33].to_vec(), "PNG image is damaged or cut off"),
        (whole[..whole.len() / 2].to_vec(), "PNG image is damaged or cut off"),
        (gif[..40].to_vec(), "GIF image is damaged or cut off"),
        (webp[..webp.len() / 2].to_vec(), "WebP image is damaged or cut off"),
        (b"\xFF\xD8\xFF".to_vec(), "JPEG image is damaged or cut off"),
        (png_header(30_000, 30_000), "30000 × 30000 pixels"),
        (wide_gif, "65535 × 65535 pixels"),
    ];
    for (bytes, words) in cases {
        let fault = FittedImage::fit(bytes, LIMITS).unwrap_err().to_string();
        assert!(fault.contains(words) && !fault.contains('\n'), "{fault}");
    }
}

#[test]
fn a_progressive_jpeg_is_known_by_its_frame_header() {
    let baseline = encoded(&gradient(9, 9), image::ImageFormat::Jpeg);
    assert!(!is_progressive(&baseline));
    let frame = baseline.windows(2).position(|two| two == [0xFF, 0xC0]).unwrap();
    let mut progressive = baseline;
    progressive[frame + 1] = 0xC2;
    assert!(is_progressive(&progressive));
    assert!(!is_progressive(b"\xFF\xD8\xFF\xE0\xFF") && !is_progressive(b"\xFF\xD8\xFF"));
}
