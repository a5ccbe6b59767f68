import Foundation

/// Bytes that closed revisions wrote, from `Tests/formats/REVISION`. When a revision closes,
/// `Tests/formats/make` runs the same tests with `TIDECAST_RECORD` and so writes its bytes. Other runs only
/// read.
public enum StoredFormats {
    public struct Sample: Sendable {
        public var name: String
        public var bytes: [UInt8]

        public init(_ name: String, _ bytes: [UInt8]) {
            self.name = name
            self.bytes = bytes
        }
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("formats")

    /// The samples of each closed revision in `file`. With `TIDECAST_RECORD` it also writes `samples` for the
    /// new revision.
    public static func read(
        _ file: String, recording samples: [Sample]
    ) throws -> [(revision: String, samples: [Sample])] {
        if let folder = ProcessInfo.processInfo.environment["TIDECAST_RECORD"] {
            let text = samples.map { "\($0.name) \(hex($0.bytes))\n" }.joined()
            try Data(text.utf8).write(to: URL(fileURLWithPath: folder).appendingPathComponent(file))
        }
        var found: [(String, [Sample])] = []
        for revision in try FileManager.default.contentsOfDirectory(atPath: root.path).sorted() {
            let path = root.appendingPathComponent(revision).appendingPathComponent(file)
            guard let data = FileManager.default.contents(atPath: path.path) else { continue }
            let lines = String(decoding: data, as: UTF8.self).split(separator: "\n")
            found.append((revision, lines.compactMap { sample($0) }))
        }
        return found
    }

    private static func sample(_ line: Substring) -> Sample? {
        let words = line.split(separator: " ")
        guard words.count == 2 else { return nil }
        let digits = Array(words[1].utf8)
        let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
        return Sample(String(words[0]), bytes)
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var out: [UInt8] = []
        for byte in bytes { out += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
        return String(decoding: out, as: UTF8.self)
    }
}
