import HTTPMessages
import Model
import Testing

@testable import Listener

@Suite("A header of the PROXY protocol")
struct ProxyHeaderTests {
    /// `family`: the byte of family and transport; `rest`: addresses and fields.
    private func header(
        _ rest: [UInt8], command: UInt8 = 0x21, family: UInt8 = 0x11, length: Int? = nil
    ) -> [UInt8] {
        let length = length ?? rest.count
        return ProxyHeader.signature + [command, family, UInt8(length >> 8), UInt8(length & 0xFF)] + rest
    }
    private static let v4: [UInt8] = [192, 0, 2, 1, 10, 0, 0, 1, 0x30, 0x39, 0x01, 0xBB]
    private static let v6: [UInt8] =
        [0x20, 0x01, 0x0D, 0xB8] + Array(repeating: 0, count: 11) + [7] + Array(repeating: 0, count: 16)
        + [0x30, 0x39, 0x01, 0xBB]

    @Test("names the client by its address, in either family")
    func addresses() {
        let four = ProxyHeader.Client.address([192, 0, 2, 1], port: 12_345)
        #expect(ProxyHeader(at: header(Self.v4) + [1, 2, 3]) == .found(four, length: 28))
        let six = ProxyHeader.Client.address(Array(Self.v6[..<16]), port: 12_345)
        #expect(ProxyHeader(at: header(Self.v6, family: 0x21)) == .found(six, length: 52))
        #expect(ClientAddress(four)?.isNamed == true)
        #expect(ClientAddress(four)?.key == ClientAddress(bytes: [192, 0, 2, 1])?.key)
    }

    @Test("names nobody where the proxy speaks for itself, knows no address, or serves a local socket")
    func nobody() {
        #expect(ProxyHeader(at: header([], command: 0x20, family: 0)) == .found(.proxy, length: 16))
        // Whatever follows this command means nothing.
        #expect(
            ProxyHeader(at: header([9, 9], command: 0x20, family: 0xFF)) == .found(.proxy, length: 18))
        #expect(ProxyHeader(at: header([1, 2], family: 0)) == .found(.unknown, length: 18))
        let paths = [UInt8](repeating: 0, count: 216)
        #expect(ProxyHeader(at: header(paths, family: 0x31)) == .found(.unknown, length: 232))
    }

    @Test("is absent where the bytes are a request's or a TLS hello's, and incomplete before its end")
    func parts() {
        for start in ["GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n", "\r\nGET / HTTP/1.1\r\n", "\r\n\r\nGE"]
        {
            #expect(ProxyHeader(at: Array(start.utf8)) == .absent, "\(start)")
        }
        #expect(ProxyHeader(at: [0x16, 0x03, 0x01]) == .absent)
        let whole = header(Self.v4 + [0x04, 0, 1, 0])
        for count in 0..<whole.count { #expect(ProxyHeader(at: whole[..<count]) == .incomplete) }
        #expect(ProxyHeader(at: whole) != .incomplete)
    }

    @Test("with fields is read past them, and with a broken one is malformed")
    func fields() {
        let client = ProxyHeader.Client.address([192, 0, 2, 1], port: 12_345)
        let fields: [UInt8] = [0x04, 0, 0, 0x02, 0, 3, 97, 98, 99]
        #expect(ProxyHeader(at: header(Self.v4 + fields)) == .found(client, length: 37))
        for broken: [UInt8] in [[0x04], [0x04, 0], [0x04, 0, 1], [0x04, 0xFF, 0xFF, 1]] {
            #expect(ProxyHeader(at: header(Self.v4 + broken)) == .malformed(.fields))
        }
    }

    @Test("of another version, command, family or length is malformed as soon as this shows")
    func malformed() {
        #expect(ProxyHeader(at: header([], command: 0x11)) == .malformed(.version))
        #expect(ProxyHeader(at: header(Self.v4, command: 0x22)) == .malformed(.command))
        for family: UInt8 in [0x01, 0x10, 0x12, 0x22, 0x32, 0x41, 0xFF] {
            #expect(ProxyHeader(at: header(Self.v4, family: family)) == .malformed(.family))
        }
        #expect(ProxyHeader(at: header(Array(Self.v4.dropLast()))) == .malformed(.addresses))
        #expect(ProxyHeader(at: header(Self.v4, family: 0x21)) == .malformed(.addresses))
        // The rest of a header that is too long need not come.
        #expect(ProxyHeader(at: header([], length: 65_535)) == .malformed(.tooLong))
        let most = ProxyHeader.bytesMax - 16
        #expect(ProxyHeader(at: header([], family: 0, length: most)) == .incomplete)
        #expect(ProxyHeader(at: header([], family: 0, length: most + 1)) == .malformed(.tooLong))
    }

    @Test("has its client counted, who is no proxy wherever it is")
    func counted() throws {
        let proxy = try #require(ClientAddress(bytes: [10, 0, 0, 1]))
        let private24 = AddressRange(proxy, bits: 24)
        var gate = ConnectionGate(.init(connectionsMax: 9, perAddressMax: 1, exempt: [private24]))
        let client = try #require(ClientAddress(bytes: [10, 0, 0, 7])).named
        for _ in 0..<3 { #expect(gate.admit(proxy, now: MonotonicTime(.zero)) == .admitted) }
        #expect(gate.count(client, now: MonotonicTime(.zero)) == .admitted)
        #expect(gate.count(client, now: MonotonicTime(.zero)) == .tooManyOfAddress)
        #expect(gate.count(nil, now: MonotonicTime(.zero)) == .admitted)
        #expect(gate.open == 3)
        gate.uncount(client)
        #expect(gate.count(client, now: MonotonicTime(.zero)) == .admitted)
        #expect(gate.bounds.isProxy(proxy) && !gate.bounds.isProxy(client))
        // A client on the balancer's own machine is a client too.
        let near = try #require(ClientAddress(bytes: [127, 0, 0, 1])).named
        #expect(gate.count(near, now: MonotonicTime(.zero)) == .admitted)
        #expect(gate.count(near, now: MonotonicTime(.zero)) == .tooManyOfAddress)
    }
}
