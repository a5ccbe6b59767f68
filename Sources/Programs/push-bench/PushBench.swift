import Foundation
import Glibc
import PushClient
import Synchronization

// The cost of the push client alone: CPU-microseconds of this process for each request to a server that is
// there already, such as nginx with `return 201;`.
//
//     push-bench URL AUTHORITY-FILE [REQUESTS [AT-ONCE]]

final class Count: Sendable {
    struct Seen {
        var statuses: [Int: Int] = [:]
        var failures: [String: Int] = [:]
        var all = 0
    }
    let seen = Mutex(Seen())

    func note(_ answers: [PushHTTPAnswer]) {
        seen.withLock { seen in
            seen.all += answers.count
            for answer in answers {
                switch answer.result {
                case .answered(let status, _, _): seen.statuses[status, default: 0] += 1
                case .notPrepared(let error): seen.failures["\(error)", default: 0] += 1
                case .notTried(let reason): seen.failures[reason, default: 0] += 1
                case .failed(let reason, let mayHaveArrived):
                    let text = reason + (mayHaveArrived ? " (may have arrived)" : "")
                    seen.failures[text, default: 0] += 1
                }
            }
        }
    }
}

@main
struct PushBench {
    static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    static func main() throws {
        let words = CommandLine.arguments
        guard words.count > 2 else {
            print("push-bench URL AUTHORITY-FILE [REQUESTS [AT-ONCE]]")
            exit(64)
        }
        let (url, pem) = (words[1], try String(contentsOfFile: words[2], encoding: .utf8))
        let count = words.count > 3 ? Int(words[3]) ?? 20_000 : 20_000
        var settings = PushClientSettings()
        settings.transfersPerOriginMax = words.count > 4 ? Int(words[4]) ?? 100 : 100
        let counted = Count()
        let client = try PushClient(settings: settings) { counted.note($0) }
        let fields = [
            ("TTL", "2419200"), ("Urgency", "high"), ("Content-Encoding", "aes128gcm"),
            ("Content-Type", "application/octet-stream"),
            (
                "Authorization",
                "vapid t=" + String(repeating: "t", count: 250) + ", k=" + String(repeating: "k", count: 87)
            ),
        ]
        let body = [UInt8](repeating: 0xA5, count: 400)
        var sent: UInt64 = 0
        // The first run is the warm-up.
        for run in 0..<6 {
            let (cpu, began) = (seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC))
            let before = sent
            client.submit(
                (0..<count).map { _ in
                    sent += 1
                    return PushHTTPRequest(number: sent, url: url, caPEM: pem) {
                        $0 == [127, 0, 0, 1]
                    } prepare: {
                        (fields: fields, body: body)
                    }
                })
            while counted.seen.withLock({ $0.all }) < Int(sent) { usleep(1_000) }
            let spent = (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / Double(sent - before)
            let rate = Double(sent - before) / (seconds(CLOCK_MONOTONIC) - began)
            print("run \(run): \(String(format: "%.1f", spent)) µs of CPU each, \(Int(rate)) a second")
        }
        let seen = counted.seen.withLock { $0 }
        print("statuses \(seen.statuses), failures \(seen.failures)")
        client.stop()
    }
}
