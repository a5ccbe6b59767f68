import HTTPMessages
import Model
import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

@testable import Edge

@Suite("A connection that becomes a WebSocket", .serialized) struct SwitchingTests {
    private final class Counts: Sendable {
        let asked = Atomic<Int>(0)
        let opened = Atomic<Int>(0)
        let ended = Atomic<Int>(0)
    }

    /// Opens a WebSocket where the request asks for one, and an event stream at `/listen`.
    private final class Handler: RequestHandler {
        let counts: Counts
        init(_ counts: Counts) { self.counts = counts }
        func share(of request: HTTPRequest) -> UInt64 { 0 }
        func handle(_ request: HTTPRequest, _ responder: Responder) {
            counts.asked.add(1, ordering: .relaxed)
            if request.target == Array("/listen".utf8) {
                counts.opened.add(1, ordering: .relaxed)
                responder.openStream(status: 200, fields: [])
            } else if responder.openSocket(subprotocol: "push-notification") {
                counts.opened.add(1, ordering: .relaxed)
            } else {
                responder.respond(HTTPResponse(status: 426))
            }
        }
        func admit(_ request: HTTPRequest, from peer: () -> Peer) -> BodyAdmission { .upTo(1024) }
        func contentBytesMax(of request: HTTPRequest) -> Int { 1024 }
        func cancelled(_ responder: Responder) { counts.ended.add(1, ordering: .relaxed) }
    }

    private static let listen = "GET /listen HTTP/1.1\r\nHost: x\r\n\r\n"

    private static func handshake(_ connection: [String], upgrade: String = "websocket") -> String {
        let lines =
            ["GET /push HTTP/1.1", "Host: x", "Upgrade: \(upgrade)"] + connection.map { "Connection: \($0)" }
            + ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"]
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    /// Sends `bytes` at once, reads the first answer, and ends the connection. Returns the counts when the
    /// edge has ended all that it opened, or 5 s later.
    private func counts(
        of bytes: String, _ configuration: EdgeConfiguration = EdgeConfiguration()
    ) throws -> (answer: String, asked: Int, opened: Int, ended: Int) {
        let counts = Counts()
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        defer { try? group.syncShutdownGracefully() }
        let edge = try Edge(group: group, configuration: configuration) { _ in Handler(counts) }
        let port = try edge.listen(host: "127.0.0.1", port: 0)
        var answer = ""
        do {
            let client = try RawClient(port: port)
            client.send(bytes)
            client.read(within: 2) { $0.text.contains("\r\n\r\n") }
            answer = String(client.text.prefix(12))
        }
        let isOver = { counts.ended.load(ordering: .relaxed) >= counts.opened.load(ordering: .relaxed) }
        for _ in 0..<500 where edge.isInUse || !isOver() { usleep(10_000) }
        return (
            answer, counts.asked.load(ordering: .relaxed), counts.opened.load(ordering: .relaxed),
            counts.ended.load(ordering: .relaxed)
        )
    }

    @Test(
        "has one session at most, which ends with it, whatever comes behind the handshake",
        arguments: [
            ["upgrade"], ["keep-alive, Upgrade"], ["upgrade\t"], ["upgrade\t, x"], ["x\t, upgrade"],
            ["x", "upgrade\t"],
        ],
        [String(repeating: handshake(["upgrade\t"]), count: 50), String(repeating: listen, count: 50), "G\0"])
    func pipelined(connection: [String], behind: String) throws {
        let found = try counts(of: SwitchingTests.handshake(connection) + behind)
        #expect(found.asked == 1 && found.opened <= 1 && found.ended == found.opened, "\(connection)")
        let hasTab = connection.contains { $0.contains("\t") }
        #expect(found.answer == (hasTab ? "HTTP/1.1 426" : "HTTP/1.1 101"), "\(connection)")
    }

    @Test(
        "closes where the parser goes on with HTTP all the same",
        arguments: [
            String(repeating: handshake(["upgrade\t"]), count: 50), String(repeating: listen, count: 50),
            "G\0",
        ])
    func disagreement(behind: String) throws {
        var configuration = EdgeConfiguration()
        configuration.plantedLooseUpgrade = true
        let found = try counts(of: SwitchingTests.handshake(["upgrade\t"]) + behind, configuration)
        #expect(found.answer == "HTTP/1.1 101")
        #expect(found.asked == 1 && found.opened == 1 && found.ended == 1)
    }

    /// What NIO's decoder makes of `bytes`: the first head, and whether it reads the request behind it.
    private func parsed(_ bytes: String) -> (head: HTTPRequestHead?, goesOn: Bool) {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        var heads: [HTTPRequestHead] = []
        do {
            try channel.pipeline.syncOperations.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
            try channel.writeInbound(ByteBuffer(string: bytes + SwitchingTests.listen))
            while let part = try channel.readInbound(as: HTTPServerRequestPart.self) {
                if case .head(let head) = part { heads.append(head) }
            }
        } catch {
            return (nil, false)
        }
        return (heads.first, heads.count > 1)
    }

    @Test("is wanted only where the parser reads no further request, however the fields are spelled")
    func agreement() {
        var dice = SeededGenerator(seed: 7)
        let words = ["upgrade", "Upgrade", "UPGRADE", "upgradex", "close", "keep-alive", "x", "", "up\u{e4}"]
        let gaps = ["", "", "", " ", "\t", "  ", " \t"]
        func gap() -> String { gaps.randomElement(using: &dice) ?? "" }
        func value() -> String {
            (0..<Int.random(in: 1...3, using: &dice)).map { _ in
                gap() + (words.randomElement(using: &dice) ?? "") + gap()
            }.joined(separator: ",")
        }
        var wanted = 0
        for _ in 0..<20_000 {
            let lines = (0..<Int.random(in: 1...2, using: &dice)).map { _ in value() }
            let name = ["websocket", "WebSocket", "h2c, websocket"].randomElement(using: &dice) ?? ""
            let parsed = parsed(SwitchingTests.handshake(lines, upgrade: gap() + name + gap()))
            guard let head = parsed.head, WebSocketUpgrade.isWanted(head) else { continue }
            wanted += 1
            #expect(!parsed.goesOn, "\(lines)")
        }
        #expect(wanted > 1000)
    }
}
