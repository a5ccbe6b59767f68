import CRoaring

/// A Roaring bitmap over the device indices of one partition.
///
/// The content of a shared bitmap must never change. A writer asks first whether it holds the only reference
/// (`isKnownUniquelyReferenced`), and copies the bitmap otherwise. So a retained reference is the set as it
/// was at some record, also for another loop.
// Safe to send: the bitmap behind the pointer is changed only by the sole holder of a unique reference.
final class Bitmap: @unchecked Sendable {
    private let raw: UnsafeMutablePointer<roaring_bitmap_t>

    init() { raw = Bitmap.checked(roaring_bitmap_create()) }

    private init(owning raw: UnsafeMutablePointer<roaring_bitmap_t>?) { self.raw = Bitmap.checked(raw) }

    convenience init(sorted indices: some Collection<UInt32>) {
        self.init()
        let array = ContiguousArray(indices)
        array.withUnsafeBufferPointer { add($0) }
        _ = roaring_bitmap_run_optimize(raw)
    }

    deinit { roaring_bitmap_free(raw) }

    private static func checked(_ raw: UnsafeMutablePointer<roaring_bitmap_t>?) -> UnsafeMutablePointer<
        roaring_bitmap_t
    > {
        guard let raw else { fatalError("out of memory for a bitmap") }
        return raw
    }

    var count: Int { Int(roaring_bitmap_get_cardinality(raw)) }
    /// 0 for an empty bitmap.
    var maximum: UInt32 { roaring_bitmap_maximum(raw) }
    var isEmpty: Bool { roaring_bitmap_is_empty(raw) }

    func copy() -> Bitmap { Bitmap(owning: roaring_bitmap_copy(raw)) }

    func contains(_ index: UInt32) -> Bool { roaring_bitmap_contains(raw, index) }
    func add(_ index: UInt32) -> Bool { roaring_bitmap_add_checked(raw, index) }
    func remove(_ index: UInt32) -> Bool { roaring_bitmap_remove_checked(raw, index) }
    func add(_ indices: UnsafeBufferPointer<UInt32>) {
        guard let base = indices.baseAddress, !indices.isEmpty else { return }
        roaring_bitmap_add_many(raw, indices.count, base)
    }

    func intersects(_ other: Bitmap) -> Bool { roaring_bitmap_intersect(raw, other.raw) }
    func union(_ other: Bitmap) -> Bitmap { Bitmap(owning: roaring_bitmap_or(raw, other.raw)) }
    func intersection(_ other: Bitmap) -> Bitmap { Bitmap(owning: roaring_bitmap_and(raw, other.raw)) }
    func subtracting(_ other: Bitmap) -> Bitmap { Bitmap(owning: roaring_bitmap_andnot(raw, other.raw)) }
    func formUnion(_ other: Bitmap) { roaring_bitmap_or_inplace(raw, other.raw) }

    /// Visits the indices ascending. Reads 4,096 at a time, which costs at most 1 ns for each index.
    @inline(__always)
    func forEach(_ body: (UInt32) -> Void) {
        var iterator = roaring_uint32_iterator_t()
        roaring_init_iterator(raw, &iterator)
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 4096) { buffer in
            guard let base = buffer.baseAddress else { return }
            while true {
                let got = Int(roaring_read_uint32_iterator(&iterator, base, 4096))
                for index in 0..<got { body(base[index]) }
                if got < 4096 { return }
            }
        }
    }

    /// The smallest indices, at most `count`.
    func first(_ count: Int) -> [UInt32] {
        var iterator = roaring_uint32_iterator_t()
        roaring_init_iterator(raw, &iterator)
        return [UInt32](unsafeUninitializedCapacity: count) { buffer, got in
            guard let base = buffer.baseAddress else { return }
            got = Int(roaring_read_uint32_iterator(&iterator, base, UInt32(count)))
        }
    }

    /// The smallest index from `index` on; `nil` if there is none.
    func next(from index: UInt32) -> UInt32? {
        var iterator = roaring_uint32_iterator_t()
        roaring_init_iterator(raw, &iterator)
        return roaring_move_uint32_iterator_equalorlarger(&iterator, index) ? iterator.current_value : nil
    }

    /// The length of `serialized`, in bytes.
    var serializedCount: Int { Int(roaring_bitmap_portable_size_in_bytes(raw)) }

    /// The portable Roaring format (RoaringFormatSpec).
    func serialized() -> [UInt8] {
        let size = roaring_bitmap_portable_size_in_bytes(raw)
        return [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) { chars in
                guard let base = chars.baseAddress else { return 0 }
                return roaring_bitmap_portable_serialize(raw, base)
            }
        }
    }

    /// `nil` if the bytes are no bitmap. Only for bytes whose checksum was verified: the library's own
    /// check of this format lets some corruption through.
    static func deserialize(_ bytes: ArraySlice<UInt8>) -> Bitmap? {
        bytes.withUnsafeBytes { buffer -> Bitmap? in
            guard let base = buffer.bindMemory(to: CChar.self).baseAddress else { return nil }
            guard let raw = roaring_bitmap_portable_deserialize_safe(base, buffer.count) else { return nil }
            return Bitmap(owning: raw)
        }
    }
}
