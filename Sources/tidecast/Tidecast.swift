import ArgumentParser

@main
struct Tidecast: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tidecast", abstract: "A self-hosted, FCM-compatible topic-messaging cluster.")
}
