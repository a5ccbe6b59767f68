import CXXHash

/// XXH3-64 from libxxhash, for data beside the records: snapshots, catalog values, rows of tables.
public enum Checksum {
    public static func of(_ bytes: [UInt8], seed: UInt64 = 0) -> UInt64 {
        bytes.withUnsafeBytes { of($0, seed: seed) }
    }

    public static func of(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        XXH3_64bits_withSeed(bytes.baseAddress, bytes.count, XXH64_hash_t(seed))
    }
}
