//! WebP: tiles that libtiledb 2.30 wrote with what it reads from them, lossless and lossy; and forged images.

use super::*;
use crate::format::filter_list::PixelFormat;

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
    assert_eq!(error.kind(), crate::error::ErrorKind::Unsupported);
    assert!(error.to_string().contains("first filter"), "{error}");
}
