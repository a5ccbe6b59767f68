/// The special ranges of IANA's registries (RFC 6890 and its successors), which a push service never has.
enum PublicAddress {
    private struct Range {
        var bytes: [UInt8]
        var bits: Int

        init(_ bytes: UInt8..., bits: Int) {
            self.bytes = bytes
            self.bits = bits
        }

        func contains(_ address: [UInt8]) -> Bool {
            var left = bits
            for (byte, other) in zip(bytes, address) where left > 0 {
                let mask = left >= 8 ? 0xFF : UInt8(truncatingIfNeeded: 0xFF00 >> left)
                guard byte & mask == other & mask else { return false }
                left -= 8
            }
            return true
        }
    }

    private static let refusedIPv4 = [
        Range(0, bits: 8),  // this network
        Range(10, bits: 8),  // private
        Range(100, 64, bits: 10),  // carrier-grade NAT
        Range(127, bits: 8),  // loopback
        Range(169, 254, bits: 16),  // link-local, clouds' metadata
        Range(172, 16, bits: 12),  // private
        Range(192, 0, 0, bits: 24),  // protocol assignments
        Range(192, 0, 2, bits: 24),  // documentation
        Range(192, 88, 99, bits: 24),  // 6to4 relays
        Range(192, 168, bits: 16),  // private
        Range(198, 18, bits: 15),  // benchmarks
        Range(198, 51, 100, bits: 24),  // documentation
        Range(203, 0, 113, bits: 24),  // documentation
        Range(224, bits: 4),  // multicast
        Range(240, bits: 4),  // reserved, broadcast
    ]
    /// All else is loopback, IPv4-mapped, NAT64, unique local, link-local, multicast or unassigned.
    private static let globalIPv6 = Range(0x20, bits: 3)
    private static let refusedIPv6 = [
        Range(0x20, 0x01, 0x00, bits: 23),  // protocol assignments, Teredo, ORCHID
        Range(0x20, 0x01, 0x0D, 0xB8, bits: 32),  // documentation
        Range(0x20, 0x02, bits: 16),  // 6to4
        Range(0x3F, 0xFF, 0x00, bits: 20),  // documentation
    ]

    static func isPublic(_ address: [UInt8]) -> Bool {
        switch address.count {
        case 4: !refusedIPv4.contains { $0.contains(address) }
        case 16: globalIPv6.contains(address) && !refusedIPv6.contains { $0.contains(address) }
        default: false
        }
    }
}
