// Written by `npm run build` in packages/studio.
[
    ("index-CoE1yoTk.css", include_bytes!("index-CoE1yoTk.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-DD0Q4bAV.js", include_bytes!("studio-DD0Q4bAV.js").as_slice()),
]
