# Debian's googleauth and faraday, with the requests of the gem `fcm` (decision-labs/fcm). Run by libraries_other.py.
begin
  require 'googleauth'
  require 'faraday'
rescue LoadError => error
  puts error.message
  exit 77
end
require 'json'

def tell(call, response)
  puts JSON.generate(call: call, status: response.status, body: response.body)
end

project = ENV.fetch('PROJECT')
# The library asks www.googleapis.com, whatever the file says.
credentials = Google::Auth::ServiceAccountCredentials.make_creds(
  json_key_io: File.open(ENV.fetch('SERVICE_ACCOUNT')), scope: 'https://www.googleapis.com/auth/firebase.messaging'
)
bearer = credentials.fetch_access_token!['access_token']
puts JSON.generate(call: 'token', status: bearer.start_with?('tca.') ? 200 : 0, body: '')
connect = lambda do |uri|
  Faraday.new(url: uri) do |faraday|
    faraday.adapter Faraday.default_adapter
    faraday.headers['Content-Type'] = 'application/json'
    faraday.headers['Authorization'] = "Bearer #{bearer}"
    faraday.headers['access_token_auth'] = 'true'
  end
end
sends = connect.call('https://fcm.googleapis.com/v1/projects/')
send_message = lambda do |call, message, path = "#{project}/messages:send"|
  tell(call, sends.post(path, { message: message }.to_json))
end
send_message.call('send', { token: ENV.fetch('TOKEN'), data: { n: 'ruby1' } })
send_message.call('topic', { topic: ENV.fetch('TOPIC'), notification: { title: 'ruby2', body: 'b' } })
send_message.call('gone', { token: ENV.fetch('GONE') })
send_message.call('bad', { token: 'fvJ2:APA91bnonsense' })
send_message.call('foreign', { token: ENV.fetch('FOREIGN_TOKEN') })
send_message.call('other', { token: ENV.fetch('TOKEN') }, 'other/messages:send')
send_message.call('path', { token: ENV.fetch('TOKEN') }, "#{project}/messages:sendAll")
topics = connect.call('https://iid.googleapis.com')
tell('relation', topics.post("/iid/v1/#{ENV.fetch('SECOND')}/rel/topics/gems"))
tell('info', topics.get("/iid/info/#{ENV.fetch('SECOND')}", { details: true }))
body = { to: '/topics/gems', registration_tokens: [ENV.fetch('SECOND')] }
tell('batch', topics.post('/iid/v1:batchAdd', body.to_json))
