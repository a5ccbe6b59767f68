import APNsClient
import Foundation
import Glibc
import PushScheduling
import Synchronization

// The cost of the APNs client alone: CPU-microseconds of this process for each request to a server that is
// there already, such as `nghttpd`, or nginx with `return 200;`.
//
//     apns-bench HOST PORT AUTHORITY-FILE [REQUESTS [AT-ONCE]]

final class Count: Sendable {
    struct Seen {
        var statuses: [Int: Int] = [:]
        var failures: [String: Int] = [:]
        var all = 0
    }
    let seen = Mutex(Seen())

    func note(_ answers: [APNsResponse]) {
        seen.withLock { seen in
            seen.all += answers.count
            for answer in answers {
                switch answer.result {
                case .answered(let status, _, _): seen.statuses[status, default: 0] += 1
                case .notPrepared(let error): seen.failures["\(error) (not sent)", default: 0] += 1
                case .notSent(let reason):
                    seen.failures[reason + " (not sent)", default: 0] += 1
                case .failed(let reason): seen.failures[reason, default: 0] += 1
                }
            }
        }
    }
}

@main
struct APNsBench {
    static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    static func main() throws {
        let words = CommandLine.arguments
        guard words.count > 3, let port = Int(words[2]) else {
            print("apns-bench HOST PORT AUTHORITY-FILE [REQUESTS [AT-ONCE]]")
            exit(64)
        }
        let pool = APNsPool(
            host: words[1], port: port, caPEM: try String(contentsOfFile: words[3], encoding: .utf8),
            teamID: "TEAM000001", keyID: "KEY0000001")
        let count = words.count > 4 ? Int(words[4]) ?? 20_000 : 20_000
        var settings = APNsClientSettings()
        settings.streamsMax = words.count > 5 ? Int(words[5]) ?? 100 : 100
        settings.waitMax = .seconds(600)
        let counted = Count()
        let client = APNsClient(settings: settings) {
            counted.note($0)
        } onNews: {
            print($1)
        }
        let authorization = "bearer " + String(repeating: "t", count: 220)
        let body = [UInt8](repeating: 0x41, count: 400)
        var sent = 0
        // The first run is the warm-up.
        for run in 0..<6 {
            let (cpu, began) = (seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC))
            let before = sent
            while sent - before < count {
                // A batch at a time, as a node's loops submit.
                let batch = min(256, count - (sent - before))
                client.submit(
                    (sent..<sent + batch).map { request($0, over: pool, by: authorization, body: body) })
                sent += batch
                while sent - counted.seen.withLock({ $0.all }) > 1_024 { usleep(200) }
            }
            while counted.seen.withLock({ $0.all }) < sent { usleep(200) }
            let spent = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / Double(sent - before)
            let rate = Double(sent - before) / (seconds(CLOCK_MONOTONIC) - began)
            print("run \(run): \(String(format: "%.1f", spent)) µs of CPU each, \(Int(rate)) a second")
        }
        let seen = counted.seen.withLock { $0 }
        print("statuses \(seen.statuses), failures \(seen.failures)")
        client.stop()
    }

    static func request(
        _ number: Int, over pool: APNsPool, by authorization: String, body: [UInt8]
    ) -> APNsRequest {
        let digits = String(number, radix: 16)
        let token = String(repeating: "0", count: 64 - digits.count) + digits
        let id = "00000000-0000-4000-8000-" + token.suffix(12)
        return APNsRequest(number: UInt64(number), pool: pool, path: "/3/device/\(token)") {
            (
                fields: [
                    ("authorization", authorization), ("apns-topic", "com.example.app"),
                    ("apns-push-type", "alert"), ("apns-priority", "10"), ("apns-id", id),
                    ("apns-expiration", "1790000000"), ("apns-collapse-id", String(token.suffix(32))),
                ], body: body
            )
        }
    }
}
