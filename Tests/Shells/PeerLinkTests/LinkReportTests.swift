import Foundation
import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import PeerLink

/// The reports that a process gets of the connections that it makes.
@Suite("Reports of a process's connections") struct LinkReportTests {
    private let reports = Reports()

    private final class Reports: Sendable {
        struct State {
            var links: [PeerEvents.Report] = []
            var resets = 0
            var renewals = 0
        }
        private let state = Mutex(State())
        var current: State { state.withLock { $0 } }
        var events: PeerEvents {
            PeerEvents(
                now: Heard.now, received: { _, _, _ in },
                reset: { _ in self.state.withLock { $0.resets += 1 } },
                renewed: { _ in self.state.withLock { $0.renewals += 1 } },
                refused: { _ in },
                link: { _, _, report in self.state.withLock { $0.links.append(report) } })
        }
        func wait(_ until: (State) -> Bool) {
            let end = Date(timeIntervalSinceNow: 30)
            while !until(current), Date() < end { Thread.sleep(forTimeInterval: 0.005) }
        }
    }

    private let group = MultiThreadedEventLoopGroup.singleton

    private func server(_ port: Int = 0, processID: ProcessID = 2, cluster: UInt8 = 1) throws -> PeerServer {
        try PeerServer(
            port: port, identity: .test(processID, cluster: cluster), events: Reports().events)
    }

    private func peers(to port: Int, says: [UInt8]? = nil, _ reports: Reports) throws -> Connecting {
        try Connecting(
            to: port, isEager: says == nil, events: reports.events, sending: says.map { [$0] } ?? [])
    }

    @Test("tell of a connection that is made though there is nothing to say")
    func madeIdle() throws {
        let server = try server()
        let peers = try peers(to: server.port, reports)
        reports.wait { $0.links == [.stands] }
        #expect(reports.current.links == [.stands])
        try peers.end()
        #expect(reports.current.links == [.stands], "what this side ends itself is not told")
        try server.close().wait()
    }

    @Test("tell of a closed port with the reason, and of nothing that broke")
    func closedPort() throws {
        // No other test ever listens on port 1.
        let peers = try peers(to: 1, says: [1], reports)
        reports.wait { $0.links.count >= 2 }
        #expect(reports.current.links.allSatisfy { $0 == .failed("Connection refused") })
        #expect(reports.current.resets == 0, "no connection broke")
        #expect(reports.current.renewals == 1, "what waited is lost")
        try peers.end()
    }

    @Test("tell of a refused greeting with the reason")
    func refusedGreeting() throws {
        let server = try server(processID: 9)
        let peers = try peers(to: server.port, reports)
        reports.wait { !$0.links.isEmpty }
        #expect(reports.current.links.first == .failed("node node-9 has been started again"))
        try peers.end()
        try server.close().wait()
    }

    @Test("tell of a connection that breaks, and of the next")
    func broken() throws {
        let (listener, accepted) = try listener()
        let peers = try peers(to: listener.localAddress?.port ?? 0, reports)
        reports.wait { $0.links.contains(.stands) }
        for channel in accepted.channels.withLock({ $0 }) { channel.close(promise: nil) }
        reports.wait { $0.links.count >= 3 }
        #expect(Array(reports.current.links.prefix(3)) == [.stands, .broke, .stands])
        #expect(reports.current.resets == 1)
        try peers.end()
        try listener.close().wait()
    }

    /// The process is at another address now. The end of the former connection must not count for the next
    /// one.
    @Test("do not take the end of a former connection for the next one's")
    func formerEnd() throws {
        let (former, next) = (try server(), try server())
        let peers = try peers(to: former.port, reports)
        reports.wait { $0.links == [.stands] }
        let port = next.port
        try peers.run { $0.setAddresses([2: .init(host: "127.0.0.1", port: port)]) }
        reports.wait { $0.links.count >= 2 }
        try former.close().wait()
        #expect(try peers.send([1]))
        #expect(reports.current.links == [.stands, .stands])
        try peers.end()
        try next.close().wait()
    }

    private final class Accepted: Sendable {
        let channels = Mutex<[any Channel]>([])
    }

    /// Greets as process 2 does, and keeps accepted connections so that a test can end them.
    private func listener() throws -> (any Channel, Accepted) {
        let accepted = Accepted()
        let channel = try ServerBootstrap(group: group)
            .childChannelInitializer { channel in
                accepted.channels.withLock { $0.append(channel) }
                return channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(
                        PeerHandler(
                            identity: .test(2), expected: nil, newest: NewestConnections(),
                            trust: .test(), events: Reports().events, connected: { _, _ in }))
                }
            }
            .bind(host: "127.0.0.1", port: 0).wait()
        return (channel, accepted)
    }
}
