import Foundation
import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import PeerLink

/// The frames that wait for another process are bounded, whatever the process does.
@Suite("A process that does not take what it is sent", .serialized) struct BacklogTests {
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

    @Test("is cut off by name when its bound is reached, and takes again what comes later")
    func slowReader() throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        defer { try? group.syncShutdownGracefully() }
        // The other process reads one frame, and stops until the test lets it go on.
        let (begun, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isBegun = Atomic(false)
        let server = try PeerServer(
            group: group,
            events: Links().events(received: {
                guard !isBegun.exchange(true, ordering: .relaxed) else { return }
                begun.signal()
                held.wait()
            }))
        let links = Links()
        let bound = Backlog.Bound(entries: 100, bytes: 1 << 30)
        let peers = try Connecting(to: server.port, bound: bound, events: links.events())
        // Random bytes, which compression makes no fewer.
        var random = SeededGenerator(seed: 1)
        let frame = (0..<1 << 18).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        _ = try peers.send([1])
        begun.wait()
        // The sockets take some of the frames; the rest waits.
        var pressures: [Pressure] = []
        for _ in 0..<400 where !(pressures.last == .full) {
            pressures.append(
                try peers.run {
                    _ = $0.send(frame, to: 2)
                    return $0.pressure(of: 2)
                })
        }
        #expect(pressures.contains(.behind) && pressures.last == .full)
        #expect(try !peers.send(frame))
        links.wait { links.links.contains(.broke) }
        guard case .cutOff(let why)? = links.links.dropFirst().first else {
            held.signal()
            Issue.record("\(links.links)")
            return
        }
        #expect(why.contains("100 frames") && links.links.prefix(3).last == .broke)
        #expect(try peers.run { $0.pressure(of: 2) } == .none, "nothing waits any more")
        held.signal()
        links.wait { links.links.last == .stands && links.links.count > 3 }
        #expect(try peers.send([2]))
        try peers.run { $0.close() }
        try server.close().wait()
    }

    @Test("because it is not there has no more waiting for it than the bound")
    func absent() throws {
        let bound = Backlog.Bound(entries: 4, bytes: 1000)
        // Nobody listens on port 1.
        let peers = try Connecting(to: 1, bound: bound, events: Links().events())
        let taken = try peers.run { peers in (0..<6).map { _ in peers.send([1], to: 2) } }
        #expect(taken == [true, true, true, true, false, false])
        try peers.run { $0.close() }
    }

    @Test("is cut off when it asks for signs of life and does not read them")
    func pings() throws {
        let links = Links()
        let server = try PeerServer(events: links.events())
        defer { server.close() }
        var pings = ByteBuffer()
        for _ in 0..<65_536 { Frame.write(.ping, [], in: .greeting, to: &pings) }
        // A server whose loop stood still for long may end a connection as silent: the test then makes
        // another.
        for _ in 0..<8 where links.refusals.isEmpty {
            let client = try RawPeer(PeerIdentity.test(1).encoded, to: server.port).channel
            try client.setOption(.autoRead, value: false).wait()
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
