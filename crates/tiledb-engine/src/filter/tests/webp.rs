//! WebP: tiles that libtiledb 2.30 wrote with what it reads from them, lossless and lossy; and forged images.

use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;
use crate::format::filter_list::{FilterSetting, ImageSetting, PixelFormat};

/// Three lines of two pixels: pixel format, tile, cells.
const IMAGES: [(PixelFormat, &str, &str); 8] = [
    (
        PixelFormat::Rgb,
        "0100000000000000120000004a00000008000000010000004a0000005249464642000000574542505650384c360000002f018000002fa0a86d1b38c625df5e2332c26ce318c02cfa3d9623d2b68d79299d96c3cf7f5caf0580ff008805d390c414fa8be87f1c",
        "0b30557a9fc4e90e33587da2c7ec11365b80",
    ),
    (
        PixelFormat::Rgb,
        "0100000000000000120000004e00000008000000010000004e000000524946464600000057454250565038203a000000d001009d012a0200030002804225a80274010efe038e0000fd7012fabb38442b72534c157fd0cb42a66be68d7d5335fe72aa1402427530340000",
        "3a2246a58db15b515782787db7c693566532",
    ),
    (
        PixelFormat::Bgr,
        "01000000000000001200000052000000080000000100000052000000524946464a000000574542505650384c3e0000002f018000002f40986d6430887da771fe08c745968de472eb8da7f0fe08cf42968de472eb699c3fc2ef6f31ff41ffcf9694400081401a62ca608623fa1f07",
        "0b30557a9fc4e90e33587da2c7ec11365b80",
    ),
    (
        PixelFormat::Bgr,
        "0100000000000000120000004a00000008000000010000004a0000005249464642000000574542505650382036000000d001009d012a0200030002804225a802ec010ef8cdfbc000fb868bcc25b5b303071acf23565fc73d00e1647749a01c2c8fc5b6f80000",
        "312d40a09caf2b2f2a898d87a0b57d61763e",
    ),
    (
        PixelFormat::Rgba,
        "01000000000000001800000056000000080000000100000056000000524946464e000000574542505650384c420000002f018000102f40986de4ef349002dcf38008b38dfc9df63f85021c0841b60dc3fc550e5280831064db588dfe200538487c05b501ec3f08042863c505cb44f43fd603",
        "0b30557a9fc4e90e33587da2c7ec11365b80a5caef14395e",
    ),
    (
        PixelFormat::Rgba,
        "0100000000000000180000006a00000008000000010000006a000000524946466200000057454250565038580a00000010000000010000020000414c504807000000007a0ea236ca5e005650382034000000b001009d012a0200030002804225880274010ef6a38000ce3982b7a01db2b53aa5d77625ca29f02ed6bd9f315b469dd856650000",
        "10363b7a9cc1c70e465663a2c0d0dd36876b87ca654a655e",
    ),
    (
        PixelFormat::Bgra,
        "01000000000000001800000056000000080000000100000056000000524946464e000000574542505650384c420000002f018000102f40986de4ef349002dcf38008b26d18e6af7290021c8430dbc8df69ff5328c0811064db588dfe20053848bc05ad01ec3f08042863c505cb44f43fd603",
        "0b30557a9fc4e90e33587da2c7ec11365b80a5caef14395e",
    ),
    (
        PixelFormat::Bgra,
        "01000000000000001800000070000000080000000100000070000000524946466800000057454250565038580a00000010000000010000020000414c504807000000007a0ea236ca5e00565038203a000000b001009d012a0200030002804225004e8021dfb4d20000fd9d79787db29c5120d598222e13b77237f015c75af67cd57832e936b71a41db400000",
        "1740397a9fc8c10e4c5d61a28fa0a436967894ca5234505e",
    ),
];

/// The tiles, by the form of their pixels.
pub(super) fn vectors() -> impl Iterator<Item = (PixelFormat, Vec<u8>)> {
    IMAGES.iter().map(|(format, tile, _)| (*format, hex(tile)))
}

fn read(format: PixelFormat, filtered: &[u8], bytes: usize) -> Result<Vec<u8>> {
    let filters = [Filter::WebP(Some(format))];
    decode(&filters, &context(Datatype::UInt8, false), filtered, bytes)
}

#[test]
fn images_restore_to_the_bytes_of_libtiledb() {
    for (format, filtered, expected) in IMAGES {
        let expected = hex(expected);
        let cells = read(format, &hex(filtered), expected.len()).unwrap();
        assert_eq!(cells, expected, "{format:?}");
    }
}

#[test]
fn damaged_images_are_survived() {
    for (format, filtered, expected) in IMAGES {
        let (filtered, bytes) = (hex(filtered), hex(expected).len());
        for len in 0..filtered.len() {
            assert!(read(format, &filtered[..len], bytes).is_err());
        }
        for bit in 0..filtered.len() * 8 {
            let mut flipped = filtered.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = read(format, &flipped, bytes);
        }
        for len in [0, bytes - 1, bytes + 1, bytes * 4] {
            assert!(read(format, &filtered, len).is_err());
        }
    }
}

#[test]
fn an_image_larger_than_its_tile_is_not_decoded() {
    let (format, filtered, _) = IMAGES[1];
    let mut filtered = hex(filtered);
    let start = filtered.windows(3).position(|w| w == [0x9d, 0x01, 0x2a]);
    let size = start.unwrap() + 3;
    filtered[size..size + 4].copy_from_slice(&[0xFF, 0x3F, 0xFF, 0x3F]);
    assert!(read(format, &filtered, 18).is_err());

    // The canvas has the tile's size, the frame inside does not.
    let (format, filtered, _) = IMAGES[5];
    let mut filtered = hex(filtered);
    let start = filtered.windows(3).position(|w| w == [0x9d, 0x01, 0x2a]);
    let size = start.unwrap() + 3;
    filtered[size..size + 4].copy_from_slice(&[0xFF, 0x3F, 0xFF, 0x3F]);
    let error = read(format, &filtered, 24).unwrap_err().to_string();
    assert!(error.contains("16383 by 16383"), "{error}");
}

#[test]
fn an_image_stands_first() {
    let filters = [Filter::Zstd, Filter::WebP(Some(PixelFormat::Rgb))];
    let filtered = hex(IMAGES[0].1);
    let error = decode(&filters, &context(Datatype::UInt8, false), &filtered, 18).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("first filter"), "{error}");
}

/// Filters that begin with images of `lines` lines of `line_bytes` bytes.
fn list(format: PixelFormat, lines: u16, line_bytes: u16, lossless: bool) -> FilterList {
    let image = ImageSetting {
        quality: ImageSetting::QUALITY,
        lossless,
        lines,
        line_bytes,
    };
    FilterList::of([(Filter::WebP(Some(format)), FilterSetting::Image(image))])
}

fn write(list: &FilterList, cells: &[u8]) -> Result<Vec<u8>> {
    TileEncoder::new(list, &context(Datatype::UInt8, false))?.encode(cells)
}

fn assert_restored(format: PixelFormat, lines: u16, width: u16, cells: &[u8]) {
    let list = list(format, lines, width * u16::from(format.bytes()), true);
    let written = write(&list, cells).unwrap();
    // One chunk, one image, whatever the size of the tile.
    assert_eq!(written[..8], 1_u64.to_le_bytes());
    assert_eq!(written[20..24], 1_u32.to_le_bytes());
    let restored = read(format, &written, cells.len()).unwrap();
    assert!(restored == cells, "{format:?} {lines} by {width}");
}

/// Bytes without any pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn images_of_any_size_come_back_as_they_were() {
    for format in PixelFormat::ALL {
        for (lines, width) in [
            (1, 1),
            (1, 2),
            (2, 1),
            (1, 300),
            (300, 1),
            (7, 5),
            (64, 65),
            (150, 201),
        ] {
            let len = usize::from(lines) * usize::from(width) * usize::from(format.bytes());
            let smooth = (0..len).map(|i| (i / 37) as u8).collect::<Vec<_>>();
            for cells in [noise(len), vec![0; len], vec![255; len], smooth] {
                assert_restored(format, lines, width, &cells);
            }
        }
        // As long and as wide as images get.
        assert_restored(
            format,
            1,
            16383,
            &noise(16383 * usize::from(format.bytes())),
        );
        assert_restored(
            format,
            16383,
            1,
            &noise(16383 * usize::from(format.bytes())),
        );
    }
}

#[test]
fn colours_that_nobody_sees_are_kept() {
    let cells = [1, 2, 3, 0, 4, 5, 6, 0, 7, 8, 9, 255, 10, 11, 12, 1];
    for format in [PixelFormat::Rgba, PixelFormat::Bgra] {
        assert_restored(format, 2, 2, &cells);
    }
}

proptest! {
    #[test]
    fn random_images_come_back_as_they_were(
        format in proptest::sample::select(&PixelFormat::ALL[..]),
        lines in 1_u16..12,
        width in 1_u16..12,
        values in 1_u8..=255,
        bytes in proptest::collection::vec(any::<u8>(), 12 * 12 * 4),
    ) {
        // Few values make long runs and trees of few codes.
        let len = usize::from(lines) * usize::from(width) * usize::from(format.bytes());
        let cells = bytes[..len].iter().map(|b| b % values).collect::<Vec<_>>();
        assert_restored(format, lines, width, &cells);
    }
}

#[test]
fn other_filters_may_follow_an_image() {
    let cells = noise(7 * 5 * 3);
    let image = list(PixelFormat::Bgr, 7, 15, true);
    let follow = [
        Filter::Zstd,
        Filter::ByteShuffle,
        Filter::BitShuffle,
        Filter::Sha256,
        Filter::Xor,
        Filter::Delta(None),
    ];
    for filter in follow {
        let mut list = image.clone();
        list.filters.push(filter);
        list.settings.push(FilterSetting::None);
        let written = write(&list, &cells).unwrap();
        let context = context(Datatype::UInt8, false);
        let restored = decode(&list.filters, &context, &written, cells.len()).unwrap();
        assert_eq!(restored, cells, "{list}");
    }
}

#[test]
fn images_that_are_not_written_are_refused() {
    let error = write(&list(PixelFormat::Bgra, 1, 4, false), &[0; 4]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error
            .to_string()
            .contains("webp(bgra, lossless), are written"),
        "{error}"
    );
    // Without the size of images, of another size than tiles have, and with half a pixel at the end of a line.
    for (lines, line_bytes) in [(0, 0), (2, 6), (4, 4), (1, 12), (16, 1), (16384, 3)] {
        let error = write(&list(PixelFormat::Rgb, lines, line_bytes, true), &[0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("tile of 16 bytes"), "{error}");
    }
    let large = list(PixelFormat::Rgb, 16384, 3, true);
    assert!(write(&large, &[0; 16384 * 3]).is_err());
    let mut behind = list(PixelFormat::Rgb, 1, 3, true);
    behind.filters.insert(0, Filter::Zstd);
    behind.settings.insert(0, FilterSetting::None);
    let error = write(&behind, &[0; 3]).unwrap_err();
    assert!(error.to_string().contains("first filter"), "{error}");
}
