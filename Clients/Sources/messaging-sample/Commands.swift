import Foundation
import TidecastMessaging

/// Carries out one line of the input.
func perform(_ line: String) {
    let client = Messaging.messaging()
    let words = line.split(separator: " ").map(String.init)
    switch (words.first ?? "", words.dropFirst().first) {
    case ("subscribe", .some(let topic)):
        client.subscribe(toTopic: topic) { print("subscribed \(topic) \($0.map { "\($0)" } ?? "ok")") }
        print("noted")
    case ("unsubscribe", .some(let topic)):
        client.unsubscribe(fromTopic: topic) { print("unsubscribed \(topic) \($0.map { "\($0)" } ?? "ok")") }
        print("noted")
    case ("token", _):
        Task {
            do { print("token \(try await client.token())") } catch { print("token failed \(error)") }
        }
    case ("delete", _):
        Task {
            do {
                try await client.deleteToken()
                print("deleted")
            } catch { print("delete failed \(error)") }
        }
    case ("deleteData", _):
        client.deleteData { print($0.map { "deleteData failed \($0)" } ?? "deleted data") }
        print("noted")
    case ("topics", _): print("topics \(client.topics.joined(separator: " "))")
    case ("address", .some(let text)):
        let digits = Array(text)
        let bytes = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
            UInt8(String(digits[$0...$0 + 1]), radix: 16)
        }
        client.setAPNSToken(Data(bytes), type: .sandbox)
        print("noted")
    case ("wake", _): client.wake()
    case ("quit", _): exit(0)
    default: print("unknown \(line)")
    }
}
