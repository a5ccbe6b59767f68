import Bytes
import Model

/// A device's addresses.
struct AddressRow: Equatable {
    var index: UInt32
    var list: [StoredTransport]
}

/// The addresses of up to 32 devices, packed: devices of one project share a service, a key and the beginning
/// of an endpoint. An address of Google's service takes fewer than 222 bytes here (`AddressTableTests`).
struct AddressPage: Equatable {
    static func number(of index: UInt32) -> UInt32 { index / 32 }

    /// Bit n is the device n of the page.
    private var present: UInt32 = 0
    private let first: UInt32
    private let isPacked: Bool
    fileprivate let bytes: [UInt8]

    /// - Parameter rows: some rows of one page, in the order of indices.
    init(_ rows: [AddressRow]) {
        var out = ByteWriter()
        for row in rows {
            present |= 1 << (row.index % 32)
            var list = ByteWriter()
            list.varint(row.list.count)
            for one in row.list { list.stored(one) }
            out.varint(list.count)
            out.raw(list.bytes)
        }
        first = AddressPage.number(of: rows[0].index) * 32
        if let packed = LZ4.packWithLength(out.bytes, atMost: out.count * 7 / 8) {
            bytes = AddressPage.withoutRoom(packed)
            isPacked = true
        } else {
            bytes = AddressPage.withoutRoom(out.bytes)
            isPacked = false
        }
    }

    /// A copy that has no more capacity than bytes: writers and packing reserve more.
    private static func withoutRoom(_ bytes: [UInt8]) -> [UInt8] {
        var copy: [UInt8] = []
        copy.reserveCapacity(bytes.count)
        copy.append(contentsOf: bytes)
        return copy
    }

    var bytesCount: Int { bytes.count }
    func has(_ index: UInt32) -> Bool { present & (1 << (index % 32)) != 0 }
    var indices: [UInt32] { (0..<32).filter { present & (1 << $0) != 0 }.map { first + $0 } }

    var rows: [AddressRow] {
        var reader = ByteReader(unpacked)
        return indices.map { AddressRow(index: $0, list: AddressPage.next(&reader)) }
    }

    fileprivate var unpacked: [UInt8] {
        guard isPacked else { return bytes }
        guard let unpacked = LZ4.unpackWithLength(bytes, max: .max) else {
            preconditionFailure("a page of addresses in memory is malformed")
        }
        return unpacked
    }

    /// The device's row in the unpacked page.
    fileprivate func list(of index: UInt32, in unpacked: [UInt8]) -> [StoredTransport] {
        var reader = ByteReader(unpacked)
        let before = (present & ((1 << (index % 32)) - 1)).nonzeroBitCount
        for _ in 0..<before { AddressPage.skip(&reader) }
        return AddressPage.next(&reader)
    }

    private static func skip(_ reader: inout ByteReader) {
        do throws(DecodeError) { _ = try reader.slice(try reader.int()) } catch { malformed(error) }
    }

    private static func next(_ reader: inout ByteReader) -> [StoredTransport] {
        do throws(DecodeError) {
            _ = try reader.varint()
            return try (0..<(try reader.int())).map { _ throws(DecodeError) in try reader.stored() }
        } catch { malformed(error) }
    }

    private static func malformed(_ error: DecodeError) -> Never {
        preconditionFailure("a page of addresses in memory is malformed: \(error)")
    }
}

/// The page that was read last, unpacked: readers ask for one device several times in a row, or for devices
/// in their order.
final class RecentAddressPage {
    private var page: AddressPage?
    private var unpacked: [UInt8] = []

    func list(of index: UInt32, in page: AddressPage) -> [StoredTransport] {
        if self.page?.isSame(as: page) != true {
            self.page = page
            unpacked = page.unpacked
        }
        return page.list(of: index, in: unpacked)
    }
}

extension AddressPage {
    /// Whether both are one page in memory. A page that is kept cannot change, nor another take its place.
    fileprivate func isSame(as other: AddressPage) -> Bool {
        bytes.withUnsafeBufferPointer { one in
            other.bytes.withUnsafeBufferPointer { $0.baseAddress == one.baseAddress }
        }
    }
}
