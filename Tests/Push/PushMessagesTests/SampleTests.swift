import Foundation
import Model
import Testing

@testable import PushMessages

/// Samples for Tests/acceptance/push_crypto.py, which reads them with libraries that others wrote.
@Suite("Samples of push messages")
struct SampleTests {
    private static let count = 1000
    private static let file = ProcessInfo.processInfo.environment["TIDECAST_PUSH_SAMPLES"]

    private func text(_ bytes: some Collection<UInt8>) -> String {
        String(decoding: Base64URL.encode(bytes), as: UTF8.self)
    }

    @Test("are opened by their receiver, and are written where TIDECAST_PUSH_SAMPLES names a file")
    func samples() throws {
        // A thousand take a second or two, and are for the other reader.
        let count = SampleTests.file == nil ? 20 : SampleTests.count
        var lines: [String] = []
        var generator = SeededGenerator(seed: 1188)
        for number in 0..<count {
            let receiver = try Receiver(seed: UInt64(number / 10))
            // Length 0 is left out: http_ece reads an empty text in another way.
            let length = number < 3 ? [1, 3992, 3993][number] : Int.random(in: 1...3993, using: &generator)
            let plain = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
            let body = try WebPushEncryption.encrypt(
                plain, to: try receiver.keys, padTo: number % 3 == 0 ? 128 : 0)
            #expect(try receiver.open(body) == plain)
            lines.append(
                "{\"kind\":\"body\",\"private\":\"\(text(receiver.key.privateBytes))\","
                    + "\"auth\":\"\(text(receiver.auth))\",\"plain\":\"\(text(plain))\","
                    + "\"body\":\"\(text(body))\"}")
        }
        for number in 0..<50 {
            let key = try P256Key.generate()
            let now = WallTime(milliseconds: 1_800_000_000_000 + Int64(number) * 3_600_000)
            let origin = "https://push\(number).example.net"
            let vapid = try VAPID(key: key, subject: "mailto:push@example.com")
                .authorization(origin: origin, now: now)
            let apple = try APNsSigner(key: key, keyID: "ABC123DEFG", teamID: "DEF123GHIJ")
                .authorization(issuedAt: APNsSigner.issuedAt(now))
            lines.append(
                "{\"kind\":\"token\",\"public\":\"\(text(key.publicBytes))\",\"origin\":\"\(origin)\","
                    + "\"vapid\":\"\(vapid)\",\"apple\":\"\(apple)\",\"now\":\(now.milliseconds / 1000)}")
        }
        guard let file = SampleTests.file else { return }
        try Data(lines.joined(separator: "\n").utf8).write(to: URL(filePath: file))
    }
}
