//! Files that are not plain text, and images from everywhere: what the model gets of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its stage must stop")]

mod notebooks;
mod sent_images;

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::Value;

/// Returns an image of this size.
pub(crate) fn sample_image(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let pixel = |x: u32, y: u32| Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, 40]);
    let mut bytes = Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, pixel)).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Returns the sizes of all images in a request, and checks that each is what it says.
fn image_sizes(request: &Value) -> Vec<(u32, u32)> {
    let mut sizes = Vec::new();
    collect_sizes(&request["messages"], &mut sizes);
    sizes
}

fn collect_sizes(value: &Value, sizes: &mut Vec<(u32, u32)>) {
    match value {
        Value::Object(members) if value["type"] == "image" => {
            let source = &members["source"];
            let bytes = STANDARD.decode(source["data"].as_str().unwrap()).unwrap();
            assert_eq!(image::guess_format(&bytes).unwrap().to_mime_type(), source["media_type"]);
            let image = image::load_from_memory(&bytes).unwrap();
            sizes.push((image.width(), image.height()));
        }
        Value::Object(members) => members.values().for_each(|member| collect_sizes(member, sizes)),
        Value::Array(items) => items.iter().for_each(|item| collect_sizes(item, sizes)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
