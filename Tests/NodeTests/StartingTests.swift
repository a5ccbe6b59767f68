import Catalog
import Foundation
import Logging
import NIOCore
import NIOPosix
import Testing

@testable import Node

@Suite("A start that fails") struct StartingTests {
    private let folder: String

    init() {
        folder = FileManager.default.temporaryDirectory.path + "/tidecast-start-\(UUID().uuidString)"
    }

    private func start(on ports: [Int]) throws -> Node {
        var configuration = NodeConfiguration(folder: folder)
        configuration.listen = ports.map { .init(host: "127.0.0.1", port: $0) }
        configuration.loopCount = 2
        configuration.partitionCount = 4
        return try Node(configuration, log: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) {
            Issue.record("the engine ended: \($0)")
        }
    }

    /// A port below the ports that the kernel gives out by itself, and apart from the ports of databases.
    private func freePort(_ group: MultiThreadedEventLoopGroup) async throws -> Int {
        for offset in 0..<5000 {
            let port = 15_000 + (Int(getpid()) * 37 + offset) % 5000
            let bootstrap = ServerBootstrap(group: group)
            guard let probe = try? await bootstrap.bind(host: "127.0.0.1", port: port).get() else { continue }
            try await probe.close()
            return port
        }
        throw NodeError("no free port")
    }

    /// Nothing of the failed node goes on: its listeners are closed, and its folder can be opened again.
    @Test("takes back what it had begun: its listeners are closed, and its folder can be opened")
    func takesBackWhatItHadBegun() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let group = MultiThreadedEventLoopGroup.singleton
        let taken = try await freePort(group)
        let first = try start(on: [taken])
        await first.stop()
        let other = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: taken).get()
        let busy = try #require(other.localAddress?.port)
        let free = try await freePort(group)

        #expect {
            try start(on: [free, busy])
        } throws: { error in
            "\(error)" == "cannot listen on 127.0.0.1:\(busy): Address already in use"
        }
        let again = try await ServerBootstrap(group: group).bind(host: "127.0.0.1", port: free).get()
        try await again.close()
        try await other.close()
        let second = try start(on: [0])
        await second.stop()
    }
}
