import ArgumentParser
import Node

@main
struct Tidecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tidecast", abstract: "A self-hosted, FCM-compatible topic-messaging server.",
        version: Release.version,
        subcommands: [
            Server.self, Cert.self, Project.self, Device.self, Topic.self, Subscribe.self, Unsubscribe.self,
            Send.self,
            Listen.self, Cluster.self, Bench.self,
        ])

    static func main() async {
        do {
            var command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            await OwnServer.end()
        } catch {
            await OwnServer.end()
            exit(withError: error)
        }
    }
}
