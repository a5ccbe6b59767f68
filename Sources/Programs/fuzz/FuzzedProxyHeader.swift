import Listener

/// Reads arbitrary bytes as the beginning of a connection, for a fuzzer.
enum FuzzedProxyHeader {
    /// The first byte chooses whether `run` puts a header's signature before the rest, and the place at which
    /// it divides the bytes: however they come, the connection's header must be the same.
    static func run(_ input: [UInt8]) {
        guard let choice = input.first else { return }
        let rest = Array(input.dropFirst())
        let bytes = choice >= 128 ? ProxyHeader.signature + rest : rest
        let whole = ProxyHeader(at: bytes)
        for cut in [Int(choice) % 64, 16, bytes.count / 2, bytes.count - 1] where cut < bytes.count {
            let first = ProxyHeader(at: bytes.prefix(max(0, cut)))
            precondition(first == .incomplete || first == whole, "the header depends on how its bytes come")
        }
        switch whole {
        case .found(let client, let length):
            precondition(length >= 16 && length <= min(bytes.count, ProxyHeader.bytesMax))
            precondition(ProxyHeader(at: bytes.prefix(length)) == whole, "the header is longer than it says")
            precondition(ProxyHeader(at: bytes.prefix(length - 1)) == .incomplete)
            if case .address(let address, _) = client { precondition([4, 16].contains(address.count)) }
        case .incomplete:
            // Bytes that may be a header must be bounded: the handler keeps them.
            precondition(bytes.count < ProxyHeader.bytesMax)
        case .absent, .malformed: break
        }
    }
}
