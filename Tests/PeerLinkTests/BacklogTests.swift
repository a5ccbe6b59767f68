import Foundation
import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import PeerLink

/// The frames that wait for another process are bounded, whatever the process does.
@Suite("A process that does not take what it is sent", .serialized) struct BacklogTests {
    private func identity(_ processID: ProcessID) -> PeerIdentity {
        PeerIdentity(cluster: Array(repeating: 1, count: 16), processID: processID, name: "node-\(processID)")
    }

    private final class Links: Sendable {
        private let state = Mutex<(links: [PeerEvents.Report], refusals: [String])>(([], []))
        var links: [PeerEvents.Report] { state.withLock { $0.links } }
        var refusals: [String] { state.withLock { $0.refusals } }
        func events(received: @escaping @Sendable () -> Void = {}) -> PeerEvents {
            PeerEvents(
                now: Heard.now, received: { _, _, _ in received() }, reset: { _ in },
                refused: { reason in self.state.withLock { $0.refusals.append(reason) } },
                link: { _, _, report in self.state.withLock { $0.links.append(report) } })
        }
        func wait(_ until: () -> Bool) {
            let end = Date(timeIntervalSinceNow: 30)
            while !until(), Date() < end { Thread.sleep(forTimeInterval: 0.005) }
        }
    }

    private func connections(
        _ loop: any EventLoop, _ port: Int, _ bound: Backlog.Bound, _ links: Links
    ) throws -> NIOLoopBound<PeerConnections> {
        try loop.submit {
            let peers = PeerConnections(
                eventLoop: loop, identity: self.identity(1), bound: bound, events: links.events())
            peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
    }

    @Test("is cut off by name when its bound is reached, and takes again what comes later")
    func slowReader() throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        defer { try? group.syncShutdownGracefully() }
        // The other process reads one frame, and stops until the test lets it go on.
        let (begun, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isBegun = Atomic(false)
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2),
            events: Links().events(received: {
                guard !isBegun.exchange(true, ordering: .relaxed) else { return }
                begun.signal()
                held.wait()
            }))
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let links = Links()
        let bound = Backlog.Bound(entries: 100, bytes: 1 << 30)
        let peers = try connections(loop, server.port, bound, links)
        // Random bytes, which compression makes no fewer.
        var random = SeededGenerator(seed: 1)
        let frame = (0..<1 << 18).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        _ = try loop.submit { peers.value.send([1], to: 2) }.wait()
        begun.wait()
        // The sockets take some of the frames; the rest waits.
        var pressures: [Pressure] = []
        for _ in 0..<400 where !(pressures.last == .full) {
            pressures.append(
                try loop.submit {
                    _ = peers.value.send(frame, to: 2)
                    return peers.value.pressure(of: 2)
                }.wait())
        }
        #expect(pressures.contains(.behind) && pressures.last == .full)
        #expect(try !loop.submit { peers.value.send(frame, to: 2) }.wait())
        links.wait { links.links.contains(.broke) }
        guard case .cutOff(let why)? = links.links.dropFirst().first else {
            held.signal()
            Issue.record("\(links.links)")
            return
        }
        #expect(why.contains("100 frames") && links.links.prefix(3).last == .broke)
        #expect(try loop.submit { peers.value.pressure(of: 2) }.wait() == .none, "nothing waits any more")
        held.signal()
        links.wait { links.links.last == .stands && links.links.count > 3 }
        #expect(try loop.submit { peers.value.send([2], to: 2) }.wait())
        try loop.submit { peers.value.close() }.wait()
        try server.close().wait()
    }

    @Test("because it is not there has no more waiting for it than the bound")
    func absent() throws {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        // Nobody listens on port 1.
        let peers = try connections(loop, 1, Backlog.Bound(entries: 4, bytes: 1000), Links())
        let taken = try loop.submit { (0..<6).map { _ in peers.value.send([1], to: 2) } }.wait()
        #expect(taken == [true, true, true, true, false, false])
        try loop.submit { peers.value.close() }.wait()
    }

    @Test("is cut off when it asks for signs of life and does not read them")
    func pings() throws {
        let links = Links()
        let server = try PeerServer(
            group: MultiThreadedEventLoopGroup.singleton, host: "127.0.0.1", port: 0, identity: identity(2),
            events: links.events())
        defer { server.close() }
        var hello = ByteBuffer()
        // A former build sends no proof behind its greeting.
        var former = identity(1)
        former.versions = 1...2
        Frame.write(.hello, former.encoded, in: .greeting, to: &hello)
        let dialect = try #require(Dialect.common(former, identity(2)))
        var pings = ByteBuffer()
        for _ in 0..<65_536 { Frame.write(.ping, [], in: dialect, to: &pings) }
        // A server whose loop stood still for long may end a connection as silent: the test then makes
        // another.
        for _ in 0..<8 where links.refusals.isEmpty {
            let client = try ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelOption(.autoRead, value: false)
                .channelOption(.socketOption(.so_rcvbuf), value: 4096)
                .connect(host: "127.0.0.1", port: server.port).wait()
            try? client.writeAndFlush(hello).wait()
            // The answers are more than the sockets of both sides hold.
            for _ in 0..<64 where client.isActive && links.refusals.isEmpty {
                try? client.writeAndFlush(pings).wait()
            }
            links.wait { !links.refusals.isEmpty || !client.isActive }
            try? client.close().wait()
        }
        #expect(links.refusals == ["node node-1 sends pings and does not read the answers"])
    }
}
