/// A client's address, as far as bounds for one client need it: an IPv4 address, or the /64 of an IPv6
/// address, because a client with one address of a /64 mostly has all of them.
public struct ClientAddress: Hashable, Sendable {
    /// The first 64 bits of an IPv6 address. An IPv4 address is in `0:ffff::/32`, which belongs to nobody:
    /// 203.0.113.7 is 0x0000_FFFF_CB00_7107.
    public let key: UInt64
    public let isLoopback: Bool
    /// Whether a trusted proxy has named this client of a connection that it carries through. Such a client
    /// is no proxy itself, wherever it is.
    public private(set) var isNamed = false

    /// Four bytes or sixteen, as a packet has them; `nil` for any other number of them.
    public init?(bytes: some Collection<UInt8>) {
        let bytes = Array(bytes)
        switch bytes.count {
        case 4: self.init(v4: bytes[...])
        case 16 where bytes[..<10].allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF:
            self.init(v4: bytes[12...])
        case 16:
            self.init(
                key: ClientAddress.number(bytes[..<8]),
                isLoopback: bytes[..<15].allSatisfy { $0 == 0 } && bytes[15] == 1)
        default: return nil
        }
    }

    private init(v4 bytes: ArraySlice<UInt8>) {
        self.init(key: 0xFFFF << 32 | ClientAddress.number(bytes), isLoopback: bytes.first == 127)
    }

    private init(key: UInt64, isLoopback: Bool) {
        self.key = key
        self.isLoopback = isLoopback
    }

    /// The same address, named by a proxy.
    public var named: ClientAddress {
        var copy = self
        copy.isNamed = true
        return copy
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

/// Addresses that begin with the same bits.
public struct AddressRange: Hashable, Sendable {
    private let key: UInt64
    private let mask: UInt64

    /// `bits`: how many leading bits all addresses of the range share; of an IPv6 address at most 64 count.
    public init(_ address: ClientAddress, bits: Int) {
        let known = address.isIPv4 ? 32 + bits : bits
        mask = known <= 0 ? 0 : known >= 64 ? .max : ~(UInt64.max >> UInt64(known))
        key = address.key & mask
    }

    public func contains(_ address: ClientAddress) -> Bool { address.key & mask == key }
}

extension ClientAddress {
    public var isIPv4: Bool { key >> 32 == 0xFFFF }
}
