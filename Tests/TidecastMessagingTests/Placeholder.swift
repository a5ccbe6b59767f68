import Testing
@testable import TidecastMessaging
