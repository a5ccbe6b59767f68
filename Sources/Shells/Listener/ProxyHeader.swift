import HTTPMessages

/// The header of the PROXY protocol, version 2, by which a proxy that carries a TCP connection through names
/// the connection's client (HAProxy's proxy-protocol.txt of 2020-03-05, §2.2). Version 1 is not taken.
public enum ProxyHeader: Hashable, Sendable {
    /// More bytes are needed to decide.
    case incomplete
    /// The bytes are no such header.
    case absent
    case malformed(Fault)
    /// A header of `length` bytes.
    case found(Client, length: Int)

    public enum Client: Hashable, Sendable {
        /// The proxy itself has connected, to look whether the server answers.
        case proxy
        /// A client without an address that the server knows: the proxy names none, or it is a local socket.
        case unknown
        /// Four or sixteen bytes of an address, and the port.
        case address([UInt8], port: UInt16)
    }

    public enum Fault: String, Hashable, Sendable {
        case tooLong = "it is too long"
        case version = "it has another version"
        case command = "its command is unknown"
        case family = "it names neither TCP nor a local socket"
        case addresses = "it is too short for its addresses"
        case fields = "a field is longer than it"
    }

    /// How a header begins.
    public static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    /// The longest header, in bytes: addresses of local sockets take 216, and fields hold a certificate's
    /// names at most.
    public static let bytesMax = 2048
    private static let fixedBytes = 16

    /// Reads the header at the beginning of a connection's bytes.
    public init(at start: some Collection<UInt8>) {
        guard ProxyHeader.signature.starts(with: start.prefix(ProxyHeader.signature.count)) else {
            self = .absent
            return
        }
        let bytes = Array(start.prefix(ProxyHeader.bytesMax))
        guard bytes.count >= ProxyHeader.fixedBytes else {
            self = .incomplete
            return
        }
        let length = ProxyHeader.fixedBytes + Int(bytes[14]) << 8 + Int(bytes[15])
        self =
            ProxyHeader.fault(command: bytes[12], length: length).map(ProxyHeader.malformed)
            ?? (bytes.count < length ? .incomplete : ProxyHeader(whole: bytes[..<length]))
    }

    private static func fault(command: UInt8, length: Int) -> Fault? {
        if command >> 4 != 2 { return .version }
        if command & 0xF > 1 { return .command }
        return length > bytesMax ? .tooLong : nil
    }

    private init(whole bytes: ArraySlice<UInt8>) {
        // What follows the command of a proxy that speaks for itself means nothing.
        guard bytes[12] & 0xF == 1 else {
            self = .found(.proxy, length: bytes.count)
            return
        }
        let addressBytes: Int
        switch bytes[13] {
        // A proxy that names no family names no addresses either.
        case 0x00: addressBytes = bytes.count - ProxyHeader.fixedBytes
        case 0x11: addressBytes = 12
        case 0x21: addressBytes = 36
        case 0x31: addressBytes = 216
        default:
            self = .malformed(.family)
            return
        }
        let rest = bytes.dropFirst(ProxyHeader.fixedBytes)
        guard rest.count >= addressBytes else {
            self = .malformed(.addresses)
            return
        }
        guard ProxyHeader.areWhole(rest.dropFirst(addressBytes)) else {
            self = .malformed(.fields)
            return
        }
        var client = Client.unknown
        if addressBytes == 12, bytes[13] == 0x11 {
            client = .address(Array(rest.prefix(4)), port: ProxyHeader.number(rest.dropFirst(8)))
        } else if addressBytes == 36, bytes[13] == 0x21 {
            client = .address(Array(rest.prefix(16)), port: ProxyHeader.number(rest.dropFirst(32)))
        }
        self = .found(client, length: bytes.count)
    }

    /// Whether the bytes are whole fields of type, length and value (§2.2). No field is needed here.
    private static func areWhole(_ fields: ArraySlice<UInt8>) -> Bool {
        var rest = fields
        while rest.count >= 3 {
            let length = 3 + Int(number(rest.dropFirst()))
            guard length <= rest.count else { return false }
            rest = rest.dropFirst(length)
        }
        return rest.isEmpty
    }

    /// The first two bytes; the caller has seen that there are two.
    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt16 {
        bytes.prefix(2).reduce(0) { $0 << 8 | UInt16($1) }
    }
}

extension ClientAddress {
    /// The client that a proxy names.
    init?(_ client: ProxyHeader.Client) {
        guard case .address(let bytes, _) = client, let known = ClientAddress(bytes: bytes) else {
            return nil
        }
        self = known.named
    }
}
