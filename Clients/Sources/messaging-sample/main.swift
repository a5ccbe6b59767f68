// The sample of the seed, with a listener: an app for a terminal.
//
//     messaging-sample SERVER PROJECT FOLDER [KEY]
//
// It subscribes to `weather`, prints a line for each thing that happens, and takes commands from its input, a
// line each: `subscribe TOPIC`, `unsubscribe TOPIC`, `token`, `delete`, `deleteData`, `topics`,
// `address HEX`, `wake`, `quit`.
@preconcurrency import Foundation
import TidecastMessaging

setvbuf(stdout, nil, _IOLBF, 0)
let words = Array(CommandLine.arguments.dropFirst())
guard (3...4).contains(words.count) else {
    print("messaging-sample SERVER PROJECT FOLDER [KEY]")
    exit(2)
}

do {
    var options = try MessagingOptions(
        server: words[0], project: words[1], apiKey: words.count > 3 ? words[3] : nil)
    options.folder = URL(fileURLWithPath: words[2])
    options.bundleID = "org.example.sample"
    options.log = { print("log \($0)") }
    try Messaging.configure(options)
} catch {
    print("failed \(error)")
    exit(1)
}

Messaging.messaging().subscribe(toTopic: "weather") { error in
    print("Subscribed to weather topic")
}

let listening = Task {
    for await event in Messaging.messaging().events {
        switch event {
        case .message(let message):
            print("message \(message.data["n"] ?? "-") \(message.from) \(message.messageID)")
            // An app takes its time; what comes meanwhile waits.
            if let pause = message.data["pause"].flatMap(Double.init) {
                try? await Task.sleep(nanoseconds: UInt64(pause * 1e9))
            }
            print("handled \(message.data["n"] ?? "-")")
        case .deletedMessages: print("deleted_messages")
        case .connected: print("connected")
        case .reconnecting(let pause, let reason): print("reconnecting \(pause) \(reason)")
        case .replaced: print("replaced")
        case .unregistered: print("unregistered")
        }
    }
    print("ended")
}

let input = Thread {
    while let line = readLine() { perform(line) }
    exit(0)
}
input.start()
RunLoop.main.run()
