//! Files that are not plain text, made readable for models: images within the limits of requests, notebooks, PDFs.
//!
//! Everything works on bytes in memory and knows neither sessions nor tools. What is read may be hostile: every reader
//! bounds its memory before it decodes, and a file that cannot be read ends in an error of one line.

mod fitted_image;
mod image_format;
mod notebook;

pub use fitted_image::{FittedImage, ImageFault, ImageLimits, PixelSize};
pub use image_format::ImageFormat;
pub use notebook::{
    CellChange, CellEdit, CellEditError, CellKind, CellLookupError, CellOutput, EditedNotebook, NotebookCell,
    NotebookFault, OutputImage, ParsedNotebook,
};
